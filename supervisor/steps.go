// What the program says of itself: how it can, and when the manager hears of it.

package supervisor

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/process"
	"github.com/lockstep-dev/lockstep/supervisor/steps"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const envProgressFile = "LOCKSTEP_PROGRESS_FILE"

// listen opens the doors by which the program says how far it is. Without one the program runs all the same.
func (s *supervisor) listen(ctx context.Context) {
	folder := filepath.Dir(s.EpochFile)
	file := filepath.Join(folder, progressFile)
	s.container = s.Environ
	s.Environ = with(slices.Clone(s.Environ), envProgressFile, file)
	go process.NewSampler(s.keeper).Run(ctx, s.shown)
	s.addresses = asBytes(ownAddresses())
	s.serveStacks(ctx, folder)
	s.file = steps.NewFile(file, s.steps, s.Log)
	go s.file.Run(ctx)
	if s.printed != nil {
		go s.printed.Run(ctx)
	}
	if given(s.Environ, steps.EnvURL) || given(s.Environ, steps.EnvOldURL) {
		return // to somebody else
	}
	kubeflow, err := steps.NewKubeflow(filepath.Join(folder, kubeflowToken), s.steps, s.Log)
	if err != nil {
		s.Log.Warn("Kubeflow Trainer's status requests are not answered", "error", err)
		return
	}
	go kubeflow.Run(ctx)
	variables := kubeflow.Environ()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		s.Environ = with(s.Environ, name, variables[name])
	}
	s.Environ = withoutProxy(s.Environ)
}

// startProgram starts the program with its environment. Where its lines are looked at, it prints to pipes, and otherwise to the log itself.
func (s *supervisor) startProgram(environ []string) error {
	command := s.Command
	if s.Expand {
		command = expanded(command, environ)
	}
	if s.printed == nil {
		return s.keeper.Start(command, environ, unix.Stdout, unix.Stderr)
	}
	to, err := s.printed.Pipes(os.Stdout, os.Stderr)
	if err != nil {
		s.Log.Warn("The output of the program is not looked at for steps", "error", err)
		return s.keeper.Start(command, environ, unix.Stdout, unix.Stderr)
	}
	defer unix.Close(to[0])
	defer unix.Close(to[1])
	return s.keeper.Start(command, environ, to[0], to[1])
}

// hearLast hears the last word of a program that has ended.
func (s *supervisor) hearLast() {
	s.file.Look(time.Now())
	if s.printed != nil {
		s.printed.Settle(lastWord)
	}
}

// given reports whether a variable is set.
func given(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// withoutProxy keeps requests to this container from a proxy, where the container has one. Of two variables a program may read either. To Python a * is all
// hosts only where it stands alone.
func withoutProxy(environ []string) []string {
	proxies := []string{"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}
	if !slices.ContainsFunc(proxies, func(name string) bool { return given(environ, name) }) {
		return environ
	}
	lower, upper := valueOf(environ, "no_proxy"), valueOf(environ, "NO_PROXY")
	return with(with(slices.Clone(environ), "no_proxy", withLoopback(cmp.Or(lower, upper))), "NO_PROXY", withLoopback(cmp.Or(upper, lower)))
}

// withLoopback is a list of hosts that no proxy is asked for, and this container.
func withLoopback(hosts string) string {
	switch hosts {
	case "*":
		return hosts
	case "":
		return "127.0.0.1"
	}
	return hosts + ",127.0.0.1"
}

// valueOf is the value of a variable; empty where it is not set.
func valueOf(environ []string, name string) string {
	for _, v := range environ {
		if value, is := strings.CutPrefix(v, name+"="); is {
			return value
		}
	}
	return ""
}

// forget forgets what an earlier program has said, which nothing of is left.
func (s *supervisor) forget() {
	_ = os.Remove(filepath.Join(filepath.Dir(s.EpochFile), progressFile))
	s.steps.Reset(time.Now())
	s.said, s.waits, s.collectives, s.standstill = nil, nil, nil, ""
}

// say has the manager hear what the program says, where it is time for that.
func (s *supervisor) say(now time.Time) {
	last := s.steps.Last()
	switch {
	case last == nil || proto.Equal(last, s.said):
	case s.said == nil || last.GetPhase() != s.said.GetPhase() || now.Sub(s.saidAt) >= sayPeriod:
		s.client.Update(s.reportNow(now))
	}
}

// activities are those of processes by their names on the wire.
var activities = map[process.Activity]wire.Activity{
	process.Unknown: wire.Activity_ACTIVITY_UNSPECIFIED,
	process.Busy:    wire.Activity_ACTIVITY_BUSY,
	process.Idle:    wire.Activity_ACTIVITY_IDLE,
	process.Blocked: wire.Activity_ACTIVITY_BLOCKED,
	process.Stopped: wire.Activity_ACTIVITY_STOPPED,
}

// show has the manager hear that the processes do something else, and for how much of the time they wait, if it heard otherwise.
func (s *supervisor) show(now process.Shown) {
	s.waits = nil
	if w := now.Waits; w != nil && !w.Since.Before(s.steps.TrainsSince(time.Now())) {
		s.waits = &wire.Waits{LeastPercent: int32(w.Least), MostPercent: int32(w.Most)}
	}
	if was := s.activity; was != activities[now.Activity] || !alike(s.waits, s.toldWaits) {
		s.activity = activities[now.Activity]
		s.client.Update(s.reportNow(time.Now()))
	}
}

// alike reports whether two programs wait for about as long, or of neither it is known for how long.
func alike(a, b *wire.Waits) bool {
	const little = 5
	near := func(a, b int32) bool { return a-b < little && b-a < little }
	return (a == nil) == (b == nil) && near(a.GetLeastPercent(), b.GetLeastPercent()) && near(a.GetMostPercent(), b.GetMostPercent())
}

// reportNow is the machine's last report with what the program says. A program that is stopped for a later epoch says nothing in that.
func (s *supervisor) reportNow(now time.Time) *wire.Report {
	s.said, s.saidAt, s.toldWaits = s.steps.Last(), now, s.waits
	report := proto.CloneOf(s.report)
	report.Activity, report.Addresses, report.Collectives = s.activity, s.addresses, s.collectives
	if report.State == wire.State_STATE_RUNNING {
		report.Waits = s.waits
	}
	if report.ResumeStep > 0 {
		report.ResumeScope = s.resumeScope
	}
	switch report.State {
	case wire.State_STATE_RUNNING, wire.State_STATE_FAILED, wire.State_STATE_SUCCEEDED:
		report.Progress = s.said
	}
	return report
}
