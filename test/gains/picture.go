package main

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lockstep-dev/lockstep/lab"
)

// shades tell the policies from each other, also without colours.
var shades = []color.Color{color.RGBA{R: 0x1b, G: 0x5e, B: 0x9e, A: 0xff}, color.RGBA{R: 0x6b, G: 0xae, B: 0xd6, A: 0xff}, color.RGBA{R: 0xbd, G: 0xbd, B: 0xbd, A: 0xff}}

// bars draws what share of the time is not trained, by size and policy: the lower a bar, the better.
func bars(all []size) (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = "time not trained [%]"
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	width := vg.Points(22)
	for i, policy := range policies {
		var values plotter.Values
		for _, s := range all {
			values = append(values, 100*(1-lab.EstimateOf(s.ettrs(i)).Mean))
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
	return p, nil
}

// picture is the drawing as SVG.
func picture(all []size) ([]byte, error) {
	p, err := bars(all)
	if err != nil {
		return nil, fmt.Errorf("draw the gains: %w", err)
	}
	canvas := vgsvg.New(16*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write the picture: %w", err)
	}
	return out.Bytes(), nil
}
