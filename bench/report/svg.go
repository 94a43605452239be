package report

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/hanzoai/pqgw/bench"
)

// Drawings are as wide as a phone and scale up: their text stays readable at
// 400 pixels. All lengths are in the drawing's own units.
const (
	width      = 380.0
	lineHeight = 15.0
	barHeight  = 11.0
	plotHeight = 190.0
	left       = 44.0 // for the labels of a y axis
	fontSize   = 10.5
)

// colours are told apart by those who see no red or green as well (Okabe and
// Ito's palette).
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#444444"}

func colour(i int) string { return colours[i%len(colours)] }

// rest is the name of a series that is no thing of its own; it is grey.
const rest = "rest"

func seriesColour(all []string, name string) string {
	if name == rest {
		return "#b5b5b5"
	}
	return colour(slices.Index(all, name))
}

// drawing collects SVG from the top down.
type drawing struct {
	b strings.Builder
	y float64
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(x, y float64, anchor, s string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(s))
}

func (d *drawing) rect(x, y, w, h float64, fill, title string) {
	d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`, x, y, max(0.5, w), h, fill, html.EscapeString(title))
}

func (d *drawing) line(x1, y1, x2, y2 float64, style string) {
	d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, style)
}

// legend names the colours, as many on a line as fit.
func (d *drawing) legend(names []string) {
	if len(names) < 2 {
		return
	}
	x := 0.0
	for _, n := range names {
		w := 16 + textWidth(n) + 10
		if x > 0 && x+w > width {
			x, d.y = 0, d.y+lineHeight
		}
		d.rect(x, d.y+2, 10, 10, seriesColour(names, n), n)
		d.text(x+14, d.y+11, "start", n)
		x += w
	}
	d.y += lineHeight + 4
}

// textWidth is about that of a text in a sans-serif face.
func textWidth(s string) float64 { return 0.56 * fontSize * float64(len([]rune(s))) }

// String is the whole drawing.
func (d *drawing) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" font-family="system-ui, sans-serif" font-size="%.1f">`, width, d.y+4, fontSize) +
		"\n" + d.b.String() + "</svg>\n"
}

// draw makes a plot of an experiment; "" where nothing that it needs was
// measured.
func draw(e *bench.ExperimentData, p bench.Plot) string {
	cells := chosen(e, p)
	if len(cells) == 0 {
		return ""
	}
	switch p.Kind {
	case bench.Bars:
		return bars(cells, p)
	case bench.Stack:
		return stack(cells, p)
	case bench.Waterfall:
		return waterfall(cells, p)
	case bench.Curve:
		return curve(cells, p)
	case bench.CDF:
		return cdf(cells, p)
	}
	return ""
}

// chosen are the cells that a plot can show.
func chosen(e *bench.ExperimentData, p bench.Plot) []*bench.Cell {
	var out []*bench.Cell
	for _, c := range e.Cells {
		fits := true
		for k, v := range p.Where {
			fits = fits && c.Labels[k] == v
		}
		_, measured := c.Measured(p.Metric)
		if fits && measured {
			out = append(out, c)
		}
	}
	return out
}

// values of a label in the order in which they appear.
func values(cells []*bench.Cell, label string) []string {
	var out []string
	for _, c := range cells {
		if v := c.Labels[label]; !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func largest(cells []*bench.Cell, metric string) float64 {
	top := slices.MaxFunc(cells, func(a, b *bench.Cell) int { return cmp.Compare(a.Stats[metric].High, b.Stats[metric].High) })
	return max(top.Stats[metric].High, 1e-9)
}

// valueRoom is kept free at the right of bars for what they stand for.
const valueRoom = 92.0

// bars draws one bar for each cell, those of the same X under one heading,
// with whiskers for the interval.
func bars(cells []*bench.Cell, p bench.Plot) string {
	d := new(drawing)
	series := values(cells, p.Series)
	d.legend(series)
	scale := (width - valueRoom) / largest(cells, p.Metric)
	for _, x := range values(cells, p.X) {
		d.text(0, d.y+11, "start", x)
		d.y += lineHeight
		for _, c := range cells {
			if c.Labels[p.X] != x {
				continue
			}
			s := c.Stats[p.Metric]
			d.rect(0, d.y, s.Median*scale, barHeight, seriesColour(series, c.Labels[p.Series]), c.Name+": "+interval(s))
			middle := d.y + barHeight/2
			d.line(s.Low*scale, middle, s.High*scale, middle, `stroke="#222" stroke-width="1"`)
			d.text(max(s.High, s.Median)*scale+4, d.y+9.5, "start", number(s.Median))
			d.y += barHeight + 2
		}
		d.y += 4
	}
	return d.String()
}

// stack draws one bar for each X, made of its series.
func stack(cells []*bench.Cell, p bench.Plot) string {
	d := new(drawing)
	series := values(cells, p.Series)
	d.legend(series)
	totals := make(map[string]float64)
	top := 0.0
	for _, c := range cells {
		totals[c.Labels[p.X]] += c.Stats[p.Metric].Median
		top = max(top, totals[c.Labels[p.X]])
	}
	scale := (width - valueRoom/2) / max(top, 1e-9)
	for _, x := range values(cells, p.X) {
		d.text(0, d.y+11, "start", x)
		d.y += lineHeight
		at := 0.0
		for _, c := range cells {
			if c.Labels[p.X] != x {
				continue
			}
			v := c.Stats[p.Metric].Median
			d.rect(at*scale, d.y, max(0, v)*scale, 1.5*barHeight, seriesColour(series, c.Labels[p.Series]), c.Name+": "+number(v))
			at += max(0, v)
		}
		d.text(at*scale+4, d.y+12, "start", number(totals[x]))
		d.y += 1.5*barHeight + 6
	}
	return d.String()
}

// waterfall draws each cell where those before it end.
func waterfall(cells []*bench.Cell, p bench.Plot) string {
	d := new(drawing)
	total, low, high := 0.0, 0.0, 0.0
	for _, c := range cells {
		total += c.Stats[p.Metric].Median
		low, high = min(low, total), max(high, total)
	}
	scale := (width - valueRoom) / max(high-low, 1e-9)
	at := -low
	for i, c := range cells {
		v := c.Stats[p.Metric].Median
		d.text(0, d.y+11, "start", c.Labels[p.X])
		d.y += lineHeight
		from := min(at, at+v)
		fill := colour(0)
		if v < 0 {
			fill = colour(2)
		}
		d.rect(from*scale, d.y, abs(v)*scale, barHeight, fill, c.Name+": "+interval(c.Stats[p.Metric]))
		d.text((from+abs(v))*scale+4, d.y+9.5, "start", fmt.Sprintf("%s  (%s)", signed(v), number(at+v+low)))
		at += v
		if i+1 < len(cells) {
			d.line(at*scale, d.y+barHeight, at*scale, d.y+barHeight+lineHeight+3, `stroke="#888" stroke-dasharray="2 2"`)
		}
		d.y += barHeight + 3
	}
	return d.String()
}

func abs(v float64) float64 { return max(v, -v) }

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v)
	}
	return number(v)
}
