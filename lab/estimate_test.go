package lab

import (
	"math"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// The values are those of a textbook: t(0.975) is 2.776 for 4 degrees of freedom, and 12.706 for 1.
func TestEstimates(t *testing.T) {
	check.Equal(t, "five", "3.0000 ±1.9632", EstimateOf([]float64{1, 2, 3, 4, 5}).String())
	check.Equal(t, "two", "1.5000 ±6.3531", EstimateOf([]float64{1, 2}).String())
	check.Equal(t, "one", "2.0000", EstimateOf([]float64{2}).String())
	check.Equal(t, "one is not certain", false, EstimateOf([]float64{2}).Certain())
	d := Difference([]float64{1.1, 5.1, 9.1}, []float64{1, 5, 9})
	check.Equal(t, "the same difference each time", true, math.Abs(d.Mean-0.1) < 1e-9 && d.Margin < 1e-9 && d.Certain())
	check.Equal(t, "a difference that comes and goes", false, Difference([]float64{1, 3}, []float64{2, 2}).Certain())
}
