package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

// number writes v with three significant digits and thousands apart.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a == 0:
		return "0"
	case a < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a < 1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// interval writes a statistic as "median (low–high)", or why there is none.
func interval(s bench.Stat) string {
	if s.NotMeasured != "" {
		return "not measured"
	}
	low, high := number(s.Low), number(s.High)
	if m := number(s.Median); low == m && high == m {
		return m
	}
	return number(s.Median) + " (" + low + "–" + high + ")"
}

// percent writes a share.
func percent(v float64) string { return number(100*v) + " %" }
