// Statistics: medians, spreads and ratios of times.

package main

import (
	"slices"
	"time"
)

// quantile of numbers, between the two nearest where it falls between them; 0 of none.
func quantile[N ~int | ~int64](numbers []N, q float64) N {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	part := at - float64(low)
	return sorted[low] + N(part*float64(sorted[high]-sorted[low]))
}

func median[N ~int | ~int64](numbers []N) N { return quantile(numbers, 0.5) }

// most is the greatest of numbers; 0 of none.
func most(numbers []int) int { return quantile(numbers, 1) }

// ratio of the medians; 0 where one is missing.
func ratio(ours, theirs []time.Duration) float64 {
	if len(ours) == 0 || len(theirs) == 0 {
		return 0
	}
	return float64(median(ours)) / float64(median(theirs))
}
