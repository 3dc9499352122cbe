package simulate

import (
	"bytes"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"

	"gonum.org/v1/plot/vg/draw"
)

// svg is a picture of a sweep: the ETTR of each time, with its confidence interval.
func (sw *sweep) svg() ([]byte, error) {
	p := plot.New()
	p.X.Label.Text = sw.field + " [s]"
	p.Y.Label.Text = "ETTR"
	points := ettrs{}
	for i, s := range sw.studies {
		e := s.ettr()
		points.XYs = append(points.XYs, plotter.XY{X: sw.times[i].Seconds(), Y: e.Mean})
		points.YErrors = append(points.YErrors, struct{ Low, High float64 }{e.Margin, e.Margin})
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, fmt.Errorf("draw the sweep: %w", err)
	}
	p.Add(plotter.NewGrid(), line, dots)
	if len(sw.studies[0].results) > 1 {
		bars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return nil, fmt.Errorf("draw the sweep: %w", err)
		}
		p.Add(bars)
	}
	canvas := vgsvg.New(16*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write the picture: %w", err)
	}
	return out.Bytes(), nil
}

// ettrs are points with their margins.
type ettrs struct {
	plotter.XYs
	plotter.YErrors
}
