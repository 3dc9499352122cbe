package main

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lockstep-dev/lockstep/lab"
)

// shades tell the policies from each other, also without colours.
var shades = []color.Color{color.RGBA{R: 0x1b, G: 0x5e, B: 0x9e, A: 0xff}, color.RGBA{R: 0x6b, G: 0xae, B: 0xd6, A: 0xff}, color.RGBA{R: 0xbd, G: 0xbd, B: 0xbd, A: 0xff}}

// sansSerif is the typeface of the text. A browser without it takes its own.
var sansSerif = font.Font{Typeface: "Liberation", Variant: "Sans"}

// bars draws for which share of the days the gang is down, by size and policy: the lower a bar, the better. Checkpoints, and steps
// that are trained again, are not in it: they cost the same under all policies, and with them all bars of a size look the same.
func bars(all []size, days int) (*plot.Plot, error) {
	plot.DefaultFont = sansSerif
	p := plot.New()
	p.Y.Label.Text = "time that the gang is down [%]"
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = vg.Points(4), vg.Points(8), -vg.Points(4)
	width := vg.Points(22)
	for i, policy := range policies {
		var values plotter.Values
		for _, s := range all {
			values = append(values, 100*lab.EstimateOf(s.down(i)).Mean/(float64(s.gpus)*24*float64(days)))
		}
		chart, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		chart.Color, chart.Offset = shades[i], width*vg.Length(i-1)
		p.Add(chart)
		p.Legend.Add(policy.name, chart)
	}
	var names []string
	for _, s := range all {
		names = append(names, fmt.Sprintf("%d GPUs", s.gpus))
	}
	p.NominalX(names...)
	// A bar that reaches the edge of the plot is cut there.
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, float64(len(all))-0.5, 0, 1.1*p.Y.Max
	return p, nil
}

// picture is the drawing as SVG.
func picture(all []size, days int) ([]byte, error) {
	p, err := bars(all, days)
	if err != nil {
		return nil, fmt.Errorf("draw the gains: %w", err)
	}
	canvas := vgsvg.New(16*vg.Centimeter, 9*vg.Centimeter)
	margin := vg.Points(6)
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write the picture: %w", err)
	}
	return out.Bytes(), nil
}
