package lab

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a mean with what is not known about it.
type Estimate struct {
	Mean float64
	// Margin is half of the 95 % confidence interval, by Student's t-distribution. It is infinite for one value.
	Margin float64
}

// EstimateOf estimates the mean of what some values were drawn from.
func EstimateOf(values []float64) Estimate {
	if len(values) < 2 {
		return Estimate{stat.Mean(values, nil), math.Inf(1)}
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(len(values) - 1)}.Quantile(0.975)
	return Estimate{mean, t * deviation / math.Sqrt(float64(len(values)))}
}

// Difference estimates how much greater the values of a are than those of b, one by one: plays with the same seeds meet the same
// failures.
func Difference(a, b []float64) Estimate {
	differences := make([]float64, len(a))
	for i := range a {
		differences[i] = a[i] - b[i]
	}
	return EstimateOf(differences)
}

// Certain reports whether zero is outside of the interval.
func (e Estimate) Certain() bool { return math.Abs(e.Mean) > e.Margin }

// String returns the mean and the margin, with four digits.
func (e Estimate) String() string {
	if math.IsInf(e.Margin, 1) {
		return fmt.Sprintf("%.4f", e.Mean)
	}
	return fmt.Sprintf("%.4f ±%.4f", e.Mean, e.Margin)
}
