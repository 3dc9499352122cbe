package cluster

import (
	"math"
	"os"
	"slices"
	"testing"
)

func TestOwnID(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nNSpid:\t31999\t12\t1\nThreads:\t1\n": 1,
		"NSpid:\t7\n": 7,
		"Name:\tx\n":  math.MaxInt,
	} {
		if got := ownID(status); got != want {
			t.Errorf("%q: got %d, want %d", status, got, want)
		}
	}
}

func TestSortByOwnID(t *testing.T) {
	const ended = math.MaxInt32 // above any id of a process
	pids := []int{ended, os.Getpid(), 1}
	sortByOwnID(pids)
	if want := []int{1, os.Getpid(), ended}; !slices.Equal(pids, want) {
		t.Errorf("got %v, want %v", pids, want)
	}
}
