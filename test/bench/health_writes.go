// What the manager wrote meanwhile, and what it needed for it.

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// writes are those of the manager after a mark in the audit log.
type writes struct {
	kinds   map[string]int       // by verb and resource, those that changed something
	refused map[string]int       // those that did not, with the code of the answer
	deleted map[string]time.Time // when the server was asked to delete a pod, by name
	last    time.Time
	events  int // requests to create or change an Event, which none of the others count
}

func (w writes) plus(v writes) writes {
	sum := writes{kinds: map[string]int{}, refused: map[string]int{}, last: v.last, events: w.events + v.events}
	for _, of := range []writes{w, v} {
		add(sum.kinds, of.kinds)
		add(sum.refused, of.refused)
	}
	return sum
}

func add(sum, counts map[string]int) {
	for what, n := range counts {
		sum[what] += n
	}
}

func total(counts map[string]int) int {
	n := 0
	for _, of := range counts {
		n += of
	}
	return n
}

func (w writes) String() string {
	var text []string
	for _, counts := range []map[string]int{w.kinds, w.refused} {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			text = append(text, fmt.Sprintf("%s %d", what, counts[what]))
		}
	}
	return strings.Join(text, ", ")
}

// writes are all that the manager was answered after a mark, whatever they concern.
func (l auditLog) writes(mark int64) (writes, error) {
	w := writes{kinds: map[string]int{}, refused: map[string]int{}, deleted: map[string]time.Time{}}
	err := l.read(mark, func(e *audit.Event) {
		if isEvent(e) {
			w.events++
			return
		}
		w.last = e.StageTimestamp.Time
		kind := kindOf(e)
		if e.ResponseStatus.Code >= 300 {
			w.refused[fmt.Sprintf("%s: %d", kind, e.ResponseStatus.Code)]++
			return
		}
		w.kinds[kind]++
		if _, again := w.deleted[e.ObjectRef.Name]; kind == "delete pods" && !again {
			w.deleted[e.ObjectRef.Name] = e.RequestReceivedTimestamp.Time
		}
	})
	return w, err
}

// memory is what the manager holds now, in MiB; 0 where the system does not tell.
func (b *bench) memory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cluster.Component(operator.Name).PID()))
	if err != nil {
		return 0
	}
	return resident(status)
}

func resident(status []byte) int {
	for line := range bytes.Lines(status) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			if err == nil {
				return kib / 1024
			}
		}
	}
	return 0
}

// processor is how long a component has computed so far.
func (b *bench) processor(component string) time.Duration {
	return processorOf(b.cluster.Component(component).PID())
}

// processorOf is how long a process has computed so far; 0 where the system does not tell.
func processorOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return computed(string(stat))
}

// computed is the user's and the system's time in a line of /proc, in ticks of 10 ms. The command's
// name, which may have blanks in it, ends with the last bracket.
func computed(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
