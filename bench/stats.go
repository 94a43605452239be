package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Confidence is the share of intervals that hold the true median.
const Confidence = 0.95

// resamples of a bootstrap: the interval's ends then move by less than 2 % of
// its width from one seed to another.
const resamples = 2000

// Stat sums up a metric over the rounds of a cell.
type Stat struct {
	Median      float64 `json:"median"`
	Low         float64 `json:"low"`  // of the confidence interval
	High        float64 `json:"high"` // of the confidence interval
	N           int     `json:"n"`    // samples
	NotMeasured string  `json:"not_measured,omitempty"`
}

// Sure reports whether there are samples enough for the interval to mean something:
// that of one sample is a point, and nothing is beyond its chance.
func (s Stat) Sure() bool { return s.N >= leastRounds }

// Median of values, NaN for none. values stay as they are.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return middle(sorted)
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Quantile of values by linear interpolation, q in [0, 1]; NaN for none.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Summarise gives the median of values with its bootstrap interval. The same
// values always give the same interval.
func Summarise(values []float64) Stat {
	return bootstrap(Median(values), len(values), func(pick func(int) int) float64 {
		return Median(resample(values, pick))
	})
}

// Ratio gives the ratio of the medians of a and b, which were measured in the
// same rounds of the same run; rounds are resampled together, so that what
// hit both does not widen the interval.
func Ratio(a, b []float64) Stat {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	return bootstrap(Median(a)/Median(b), n, func(pick func(int) int) float64 {
		var x, y []float64
		for range n {
			i := pick(n)
			x, y = append(x, a[i]), append(y, b[i])
		}
		return Median(x) / Median(y)
	})
}

// Change gives the ratio of the medians of two runs, after over before, whose
// rounds have nothing to do with each other.
func Change(before, after []float64) Stat {
	n := min(len(before), len(after))
	return bootstrap(Median(after)/Median(before), n, func(pick func(int) int) float64 {
		return Median(resample(after, pick)) / Median(resample(before, pick))
	})
}

func resample(values []float64, pick func(int) int) []float64 {
	out := make([]float64, len(values))
	for i := range out {
		out[i] = values[pick(len(values))]
	}
	return out
}

func bootstrap(median float64, n int, draw func(pick func(int) int) float64) Stat {
	s := Stat{Median: median, Low: median, High: median, N: n}
	if n == 0 {
		return Stat{NotMeasured: "no samples"}
	}
	if n == 1 {
		return s
	}
	random := rand.New(rand.NewPCG(1, 2))
	draws := make([]float64, resamples)
	for i := range draws {
		draws[i] = draw(random.IntN)
	}
	s.Low, s.High = Quantile(draws, (1-Confidence)/2), Quantile(draws, (1+Confidence)/2)
	return s
}
