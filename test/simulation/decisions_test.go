package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

var decisionsTo = flag.String("decisions", "", "file for what the manager decides: of each history its seed, the number of passes and a digest, and with -seed each pass, as JSON. test/differential compares the files of two engines")

// playAsAsked plays a history, and keeps what the manager decides in it where that is asked for.
func playAsAsked(seed uint64, verbose bool) *world {
	w := newWorld(seed, verbose)
	if *decisionsTo != "" {
		w.keepDecisions()
	}
	w.playHistory(seed)
	return w
}

// writeDecisions writes what the manager has decided in histories, where that is asked for.
func writeDecisions(t *testing.T, first uint64, worlds []*world) {
	t.Helper()
	if *decisionsTo == "" {
		return
	}
	file, err := os.Create(*decisionsTo)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	for i, w := range worlds {
		switch {
		case w == nil:
		case w.decided.whole != nil:
			for _, pass := range w.decided.whole {
				fmt.Fprintln(out, pass)
			}
		default:
			fmt.Fprintln(out, first+uint64(i), w.decided.passes, w.decided.digest.Sum64())
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// Another decision is another digest.
func TestDecisionsAreKept(t *testing.T) {
	kept := func(seed uint64, verbose bool) *world {
		w := newWorld(seed, verbose)
		w.keepDecisions()
		w.playHistory(seed)
		if w.decided.passes == 0 {
			t.Fatal("a history decides nothing")
		}
		return w
	}
	a, b, replay := kept(1, false), kept(2, false), kept(1, true)
	switch {
	case a.decided.digest.Sum64() != replay.decided.digest.Sum64():
		t.Error("the same history decides something else in a replay")
	case a.decided.digest.Sum64() == b.decided.digest.Sum64():
		t.Error("two histories decide the same")
	case a.decided.passes != len(replay.decided.whole) || slices.Contains(replay.decided.whole, ""):
		t.Errorf("%d passes, and the decisions of %d", a.decided.passes, len(replay.decided.whole))
	}
}
