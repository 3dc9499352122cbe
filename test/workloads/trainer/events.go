// Events: one line of key=value for everything that a test or a reader of the logs wants to know.

package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// events writes lines. Each is one write, so that lines of several goroutines do not mix.
type events struct {
	mu   sync.Mutex
	out  io.Writer
	from string // the process: its rank and incarnation
}

// emit writes time, event, rank, incarnation and the given keys and values.
func (e *events) emit(event string, keysAndValues ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "time=%s event=%s %s", time.Now().UTC().Format(time.RFC3339Nano), event, e.from)
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		fmt.Fprintf(&b, " %v=%s", keysAndValues[i], quoted(fmt.Sprint(keysAndValues[i+1])))
	}
	b.WriteByte('\n')
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = io.WriteString(e.out, b.String()) // nobody could be told
}

// quoted quotes a value that a reader who splits at spaces would take for several.
func quoted(v string) string {
	if v == "" || strings.ContainsAny(v, " \t\n\"=") {
		return strconv.Quote(v)
	}
	return v
}

// lossFields are the loss in decimal and its exact bits.
func lossFields(loss float64) []any {
	return []any{"loss", strconv.FormatFloat(loss, 'g', -1, 64), "bits", fmt.Sprintf("%016x", math.Float64bits(loss))}
}
