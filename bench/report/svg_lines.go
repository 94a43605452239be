package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

type point struct{ x, y float64 }

// series is one line of a plot.
type series struct {
	name   string
	points []point
}

// axis maps values to a length.
type axis struct {
	low, high float64
	log       bool
}

func (a axis) at(v float64) float64 {
	if a.log {
		return (math.Log10(v) - math.Log10(a.low)) / (math.Log10(a.high) - math.Log10(a.low))
	}
	return (v - a.low) / (a.high - a.low)
}

// ticks are whole decades, or about five round steps.
func (a axis) ticks() []float64 {
	var out []float64
	if a.log {
		for v := a.low; v <= a.high*1.001; v *= 10 {
			out = append(out, v)
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/2)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.high-a.low)/(step*m) <= 6 {
			step *= m
			break
		}
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high*1.001; v += step {
		out = append(out, v)
	}
	return out
}

// decades is a logarithmic axis that holds all values, which are positive.
func decades(low, high float64) axis {
	a := axis{low: math.Pow(10, math.Floor(math.Log10(low)+1e-9)), high: math.Pow(10, math.Ceil(math.Log10(high)-1e-9)), log: true}
	if a.high <= a.low {
		a.high = 10 * a.low
	}
	return a
}

// curve draws a metric over a label that is a number, both logarithmic.
func curve(cells []*bench.Cell, p bench.Plot) string {
	var all []series
	var xs, ys []float64
	for _, name := range values(cells, p.Series) {
		s := series{name: name}
		for _, c := range cells {
			x, err := strconv.ParseFloat(c.Labels[p.X], 64)
			y := c.Stats[p.Metric].Median
			if c.Labels[p.Series] != name || err != nil || x <= 0 || y <= 0 {
				continue
			}
			s.points = append(s.points, point{x, y})
			xs, ys = append(xs, x), append(ys, y)
		}
		slices.SortFunc(s.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		all = append(all, s)
	}
	if len(xs) == 0 {
		return ""
	}
	return lines(all, decades(slices.Min(xs), slices.Max(xs)), decades(slices.Min(ys), slices.Max(ys)), p.X, true)
}

// mostPoints of a distribution are drawn: more is not seen.
const mostPoints = 200

// cdf draws the distribution of what was observed, up to its 99th percentile
// in the slowest series.
func cdf(cells []*bench.Cell, p bench.Plot) string {
	lists := make(map[string][]float64)
	for _, c := range cells {
		lists[c.Labels[p.Series]] = append(lists[c.Labels[p.Series]], c.List(p.Metric)...)
	}
	var all []series
	top := 0.0
	for _, name := range values(cells, p.Series) {
		list := slices.Sorted(slices.Values(lists[name]))
		s := series{name: name}
		for i := range min(mostPoints, len(list)) {
			q := (float64(i) + 1) / float64(min(mostPoints, len(list)))
			s.points = append(s.points, point{bench.Quantile(list, q), q})
		}
		top = max(top, bench.Quantile(list, 0.99))
		all = append(all, s)
	}
	if top <= 0 {
		return ""
	}
	for i := range all {
		all[i].points = slices.DeleteFunc(all[i].points, func(p point) bool { return p.x > top })
	}
	return lines(all, axis{low: 0, high: top}, axis{low: 0, high: 1}, "", false)
}

// lines draws series in a frame with ticks.
func lines(all []series, x, y axis, xName string, dots bool) string {
	d := new(drawing)
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	d.legend(names)
	topY, wide := d.y+4, width-left-22
	px := func(p point) (float64, float64) { return left + x.at(p.x)*wide, topY + (1-y.at(p.y))*plotHeight }
	for _, t := range y.ticks() {
		_, at := px(point{x.low, t})
		d.line(left, at, left+wide, at, `stroke="#ddd"`)
		d.text(left-4, at+3.5, "end", tickText(t))
	}
	for _, t := range x.ticks() {
		at, _ := px(point{t, y.low})
		d.line(at, topY, at, topY+plotHeight, `stroke="#ddd"`)
		d.text(at, topY+plotHeight+13, "middle", tickText(t))
	}
	for i, s := range all {
		var path []string
		for _, p := range s.points {
			a, b := px(p)
			path = append(path, fmt.Sprintf("%.1f,%.1f", a, b))
			if dots {
				d.add(`<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"><title>%s</title></circle>`, a, b, colour(i), html.EscapeString(s.name+" "+tickText(p.x)+": "+number(p.y)))
			}
		}
		d.add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>`, strings.Join(path, " "), colour(i))
	}
	d.y = topY + plotHeight + 18
	if xName != "" {
		d.text(left+wide/2, d.y+9, "middle", xName)
		d.y += lineHeight
	}
	return d.String()
}

// tickText is a number without the zeros that say how exact it is.
func tickText(v float64) string {
	s := number(v)
	if strings.Contains(s, ".") && !strings.Contains(s, "e") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
