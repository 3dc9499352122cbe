package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

const (
	running     = wire.State_STATE_RUNNING
	stopping    = wire.State_STATE_STOPPING
	waiting     = wire.State_STATE_WAITING
	failedState = wire.State_STATE_FAILED
	succeeded   = wire.State_STATE_SUCCEEDED
	terminating = wire.State_STATE_TERMINATING
	warmingUp   = wire.State_STATE_WARMING_UP
)

// sigrtmin3 is SIGRTMIN+3, by which systemd is stopped.
const sigrtmin3 = syscall.Signal(37)

// The main way: a program is restarted in place, and ends well in its second epoch.
func TestRestartInPlace(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "LOCKSTEP_EPOCH=1", "LOCKSTEP_RESUME=false", "LOCKSTEP_RESTART_REASON=", "LOCKSTEP_HYPERNODE=", "LOCKSTEP_JOB=j")
	c := p.run()
	first := p.puppets.Next()
	contract := func(one *supervision.Puppet, want ...string) {
		t.Helper()
		want = slices.Insert(want, 3, "LOCKSTEP_PROGRESS_FILE="+p.path("progress.json"))
		if diff := cmp.Diff(want, one.Variables("LOCKSTEP_")); diff != "" {
			t.Error("contract: -want +got:\n" + diff)
		}
	}
	contract(first, "LOCKSTEP_EPOCH=1", "LOCKSTEP_HYPERNODE=", "LOCKSTEP_JOB=j", "LOCKSTEP_RESTART_REASON=", "LOCKSTEP_RESUME=false")
	if group, err := syscall.Getpgid(first.PID); err != nil || group != first.PID {
		t.Errorf("the program is in process group %d of another process (%v)", group, err)
	}
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)

	s.Order(&wire.Order{Epoch: 2})
	r, before := s.Await(waiting)
	if !gone(first.PID) {
		t.Error("WAITING while the program of the earlier epoch is there")
	}
	if r.Epoch != 2 || r.Exit != nil {
		t.Error("the report is", r)
	}
	for _, state := range before { // STOPPING need not be sent
		if state != stopping {
			t.Error("before WAITING came", state)
		}
	}
	if got := p.read("epoch"); got != "2\n" {
		t.Errorf("the epoch that is kept is %q", got)
	}
	p.puppets.None()

	s.Order(&wire.Order{Epoch: 2, Start: true, Resume: true, RestartReason: "NodeGone", HyperNode: "rack-7"})
	second := p.puppets.Next()
	contract(second, "LOCKSTEP_EPOCH=2", "LOCKSTEP_HYPERNODE=rack-7", "LOCKSTEP_JOB=j", "LOCKSTEP_RESTART_REASON=NodeGone", "LOCKSTEP_RESUME=true")
	s.Await(running)
	second.Exit(0)
	if r, _ := s.Await(succeeded); r.Epoch != 2 || r.Exit.GetCode() != 0 {
		t.Error("the report is", r)
	}
	s.Ended()
	c.exits(0)
}

// The manager hears which checkpoints there are once no program is left, and the program hears of which step it resumes, and in which folder that is.
func TestTheStepToResumeFrom(t *testing.T) {
	p := newPod(t)
	for _, folder := range []string{"memory", "shared"} {
		if err := os.Mkdir(p.path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write("shared/step-5.pt", "state")
	p.run(fmt.Sprintf(`--checkpoint-tiers=[{"path": %q, "scope": "Pod"}, {"path": %q, "scope": "Shared", "format": "Named"}]`, p.path("memory"), p.path("shared")))
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	if r, _ := s.Await(running); r.Checkpoints != nil || len(first.Variables("LOCKSTEP_RESUME_")) > 0 {
		t.Error("before the first restart: checkpoints", r.Checkpoints, first.Variables("LOCKSTEP_RESUME_"))
	}
	first.Do("write", p.path("memory/step-9.pt"), "state")
	first.Do("write", p.path("memory/step-10.pt.tmp"), "state")
	s.Order(&wire.Order{Epoch: 2})
	r, _ := s.Await(waiting)
	if diff := cmp.Diff(&wire.Checkpoints{Own: []int64{9}, Shared: []int64{5}}, r.Checkpoints, protocmp.Transform()); diff != "" {
		t.Error("checkpoints: -want +got:\n" + diff)
	}
	for epoch, told := range []struct {
		step int64
		want []string
	}{
		{9, []string{"LOCKSTEP_RESUME_FROM=" + p.path("memory"), "LOCKSTEP_RESUME_STEP=9"}},
		{5, []string{"LOCKSTEP_RESUME_FROM=" + p.path("shared"), "LOCKSTEP_RESUME_STEP=5"}},
		{0, []string{}},
	} {
		s.Order(&wire.Order{Epoch: 2 + int64(epoch), Start: true, ResumeStep: told.step})
		if diff := cmp.Diff(told.want, p.puppets.Next().Variables("LOCKSTEP_RESUME_")); diff != "" {
			t.Errorf("step %d: -want +got:\n%s", told.step, diff)
		}
		r, _ := s.Await(running)
		for r.Epoch < 2+int64(epoch) { // what is known of a program is said again
			r, _ = s.Await(running)
		}
		if r.ResumeStep != told.step || len(r.Checkpoints.GetOwn()) != 1 {
			t.Errorf("step %d: the report is %v", told.step, r)
		}
	}
}

// A log that nobody reads delays no restart.
func TestALogThatNobodyReads(t *testing.T) {
	p := newPod(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	pipe := int(write.Fd())
	if err := syscall.SetNonblock(pipe, true); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until it is full
		_, err = syscall.Write(pipe, make([]byte, 1))
	}
	if err := syscall.SetNonblock(pipe, false); err != nil {
		t.Fatal(err)
	}
	p.stderr = write
	p.run()
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	first.Exit(3)
	s.Await(failedState)
	s.Order(&wire.Order{Epoch: 2, Start: true})
	p.puppets.Next()
	s.Await(running)
}

// A checkpoint of which nobody was told is noticed when the program ends. What an earlier run has left is none of the next one's.
func TestACheckpointIsNoticed(t *testing.T) {
	p := newPod(t)
	p.write("latest", "10")
	p.run("--checkpoint-file=" + p.path("latest"))
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	first.Do("write", p.path("latest"), "200")
	first.Exit(3)
	if r, _ := s.Await(failedState); !r.Progressed || r.Progress.GetCheckpointStep() != 200 || r.Progress.Step != nil {
		t.Error("the report is", r)
	}
	s.Order(&wire.Order{Epoch: 2, Start: true})
	p.puppets.Next().Exit(3)
	for {
		r, _ := s.Await(failedState)
		if r.Epoch == 2 && r.Progressed {
			t.Error("the report is", r)
		}
		if r.Epoch == 2 {
			return
		}
	}
}

// What a program says of itself comes with the reports of its epoch: by a file, and by the requests of Kubeflow Trainer's SDK.
func TestWhatAProgramSays(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "http_proxy=http://proxy", "NO_PROXY=internal")
	p.run()
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	variable := func(name string) string {
		_, value, _ := strings.Cut(first.Variables(name + "=")[0], "=")
		return value
	}
	said := func(epoch, step int64) *wire.Progress { // when the manager hears of a step, or at the end of the program
		for {
			if r := s.Report(); r.Epoch == epoch && (r.Progress.GetStep() == step || r.State == failedState) {
				return r.Progress
			}
		}
	}
	check.Equal(t, "proxies of the program", "internal,127.0.0.1", variable("NO_PROXY"))
	request, err := http.NewRequest(http.MethodPost, variable("KUBEFLOW_TRAINER_SERVER_URL"), strings.NewReader(
		`{"trainerStatus": {"progressPercentage": 88, "metrics": [{"name": "current_step", "value": "8"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.read("kubeflow-token"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	check.Equal(t, "code", 200, answer.StatusCode)
	check.Equal(t, "token of the program", p.path("kubeflow-token"), variable("KUBEFLOW_TRAINER_SERVER_TOKEN"))
	check.Equal(t, "step of the request", 8, said(1, 8).GetStep())
	first.Do("write", variable("LOCKSTEP_PROGRESS_FILE"), `{"step": 9, "totalSteps": 9, "phase": "checkpoint"}`)
	of := said(1, 9) // at once, because it does something else now
	check.Equal(t, "steps", []int64{9, 9, 88}, []int64{of.GetStep(), of.GetTotalSteps(), int64(of.GetPercent())})
	check.Equal(t, "phase", wire.Phase_PHASE_CHECKPOINT, of.GetPhase())

	s.Order(&wire.Order{Epoch: 2, Start: true})
	second := p.puppets.Next()
	second.Exit(3)
	check.Equal(t, "said in the next epoch", nil, said(2, 9))
	s.Order(&wire.Order{Epoch: 3, Start: true})
	last := p.puppets.Next()
	last.Do("write", variable("LOCKSTEP_PROGRESS_FILE"), "9")
	last.Exit(3)
	check.Equal(t, "last word of a program", 9, said(3, 9).GetStep())
}

// The steps of lines that a program prints are heard, the last of one that fails, too, and the lines are in the container's log.
func TestWhatAProgramPrints(t *testing.T) {
	p := newPod(t)
	c := p.run(`--log-patterns={"preset": "Megatron"}`)
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	prints := func(program *supervision.Puppet, descriptor, text string) {
		program.Do("write", "/proc/self/fd/"+descriptor, text)
	}
	prints(first, "2", "saving checkpoint at iteration 6 to /c\n")
	for saves := false; !saves; {
		saves = s.Report().Progress.GetPhase() == wire.Phase_PHASE_CHECKPOINT
	}
	prints(first, "1", " iteration 7/ 50 | consumed samples: 1\n") // of what is printed to both, either may be heard first
	prints(first, "1", " iteration 8/ 50 | consumed samples: 2")
	first.Exit(3)
	r, _ := s.Await(failedState)
	for r.Progress.GetStep() != 8 { // on a busy machine later, but it comes
		r = s.Report()
	}
	check.Equal(t, "steps in all", 50, r.Progress.GetTotalSteps())
	s.Order(&wire.Order{Epoch: 2, Start: true})
	second := p.puppets.Next()
	prints(second, "1", " iteration 5/ 50 | consumed samples: 1\n")
	for r.Epoch != 2 || r.Progress.GetStep() != 5 {
		r = s.Report()
	}
	second.Exit(0)
	s.Await(succeeded)
	s.Ended()
	c.exits(0)
	for _, line := range []string{"saving checkpoint at iteration 6 to /c\n", " iteration 7/ 50 | ", " iteration 8/ 50 | ", " iteration 5/ 50 | "} {
		c.says(line)
	}
}

// Patterns that cannot be used, as those of a later version, keep no program from running.
func TestPatternsThatCannotBeUsed(t *testing.T) {
	p := newPod(t)
	c := p.run(`--log-patterns={"preset": "Later"}`)
	program := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	program.Exit(0)
	s.Await(succeeded)
	s.Ended()
	c.exits(0)
	c.says(`The output of the program is not looked at for steps`)
}

// One who has the program report to Kubeflow Trainer itself goes on with that.
func TestAProgramThatReportsElsewhere(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, "KUBEFLOW_TRAINER_SERVER_URL=https://elsewhere")
	p.run()
	check.Equal(t, "variables", []string{"KUBEFLOW_TRAINER_SERVER_URL=https://elsewhere"}, p.puppets.Next().Variables("KUBEFLOW_"))
}

// Where the programs of a gang heal themselves, one that runs goes on in the next epoch, and one that has failed starts at once.
// warmUp is the flag of a warm-up by a puppet.
func (p *pod) warmUp() string {
	command, err := json.Marshal(p.puppets.Command("warm-up"))
	if err != nil {
		p.t.Fatal(err)
	}
	return "--warm-up=" + string(command)
}

// A spare is at the barrier once its warm-up has ended well, and all that it has started is gone.
func TestASpareWarmsUp(t *testing.T) {
	p := newPod(t)
	p.run("--standby=spare", p.warmUp())
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(warmingUp)
	puppet := p.puppets.Next()
	check.Equal(t, "ways to say how far it is", 0, len(append(puppet.Variables("LOCKSTEP_PROGRESS_FILE="), puppet.Variables("KUBEFLOW_")...)))
	puppet.Do("spawn", "child")
	child := p.puppets.Next()
	s.Order(&wire.Order{Epoch: 2}) // it goes on
	puppet.Exit(0)
	if r, _ := s.Await(waiting); r.Epoch != 2 || r.Exit != nil || !gone(child.PID) {
		t.Error("WAITING while a process of the warm-up is there, or with the report", r)
	}
	p.puppets.None()

	s.Order(&wire.Order{Epoch: 3, Start: true, Place: &wire.Place{Environment: []string{"RANK=3"}}})
	program := p.puppets.Next()
	s.Await(running)
	check.Equal(t, "what runs", "program", program.Name)
	check.Equal(t, "rank", []string{"RANK=3"}, program.Variables("RANK"))
	check.Equal(t, "ways to say how far it is", 1, len(program.Variables("LOCKSTEP_PROGRESS_FILE=")))
}

// No program has failed where a warm-up has, and the container goes on.
func TestAWarmUpThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		flag string
		exit int
		want *wire.Exit
	}{
		"by its exit code": {"--warm-up-timeout=1h", 3, &wire.Exit{Code: 3}},
		"by its time":      {"--warm-up-timeout=1ns", -1, &wire.Exit{Code: 137, Signal: int32(syscall.SIGKILL)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			p.run("--standby=spare", p.warmUp(), test.flag)
			s := p.connected(&wire.Order{Epoch: 1})
			if test.exit >= 0 {
				p.puppets.Next().Exit(test.exit)
			}
			r, before := s.Await(warmingUp)
			for r.Exit == nil {
				r, before = s.Await(warmingUp)
			}
			check.Equal(t, "other states before", 0, len(before))
			check.Equal(t, "exit code", test.want.Code, r.Exit.Code)
			check.Equal(t, "signal", test.want.Signal, r.Exit.Signal)
		})
	}
}

// A pod that replaces that of a rank runs the rank's program alone.
func TestARankDoesNotWarmUp(t *testing.T) {
	p := newPod(t)
	p.run("--standby=rank", p.warmUp())
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(waiting)
	s.Order(&wire.Order{Epoch: 1, Start: true, Place: &wire.Place{Environment: []string{"RANK=3"}}})
	check.Equal(t, "what runs", "program", p.puppets.Next().Name)
}

func TestSurvivorsAreKept(t *testing.T) {
	p := newPod(t)
	p.run()
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1, Start: true, Keep: true})
	s.Await(running)
	s.Order(&wire.Order{Epoch: 2, Start: true, Keep: true})
	if r, before := s.Await(running); r.Epoch != 2 || before != nil || gone(first.PID) {
		t.Error("the report is", r, "after", before)
	}
	first.Exit(3)
	s.Await(failedState)
	s.Order(&wire.Order{Epoch: 3, Start: true, Keep: true})
	p.puppets.Next()
	if r, _ := s.Await(running); r.Epoch != 3 {
		t.Error("the report is", r)
	}
}

func TestFailure(t *testing.T) {
	p := newPod(t)
	p.run("--manager-timeout=1ns") // which counts for nothing while a manager is there
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 2, Start: true, Keep: true})
	for r, _ := s.Await(running); r.Epoch != 2; r, _ = s.Await(running) {
		continue // it has yet to hear the order, and so to know that a manager is there
	}
	first.Do("write", p.path("termination-log"), "ü"+strings.Repeat("x", 4095))
	first.Exit(3)
	r, _ := s.Await(failedState)
	if r.Epoch != 2 || r.Exit.GetCode() != 3 || r.Exit.Signal != 0 || r.Exit.StartedMicros == 0 || r.Exit.EndedMicros < r.Exit.StartedMicros {
		t.Error("the report is", r)
	}
	if r.Exit.Message != strings.Repeat("x", 4095) {
		t.Errorf("the message has %d bytes, and begins with %.10q", len(r.Exit.Message), r.Exit.Message)
	}

	s.Order(&wire.Order{Epoch: 3, Start: true})
	second := p.puppets.Next()
	s.Await(running)
	if got := p.read("termination-log"); got != "" {
		t.Errorf("the program finds the message of an earlier one: %.10q", got)
	}
	second.Die(syscall.SIGKILL)
	if r, _ := s.Await(failedState); r.Epoch != 3 || r.Exit.GetCode() != 137 || r.Exit.Signal != 9 || r.Exit.Message != "" {
		t.Error("the report is", r)
	}
	p.puppets.None()
}

func TestFailureWithoutManager(t *testing.T) {
	p := newPod(t)
	p.manager.Stop()
	c := p.run("--manager-timeout=1ns")
	p.puppets.Next().Exit(3)
	c.exits(3)
	c.says("No stream to the manager")
}

func TestFailureAfterTheManagerIsLost(t *testing.T) {
	p := newPod(t)
	c := p.run("--manager-timeout=1ns")
	program := p.puppets.Next()
	p.connected(&wire.Order{Epoch: 1}).Await(running)
	p.manager.Stop()
	program.Die(syscall.SIGHUP)
	c.exits(129)
}

func TestContainerThatStartsAgain(t *testing.T) {
	p := newPod(t)
	p.write("epoch", "4\n")
	p.run("--epoch=2")
	s := p.connected(&wire.Order{Epoch: 4, Start: true})
	if r, _ := s.Await(failedState); r.Epoch != 4 || r.Exit != nil {
		t.Error("the report is", r)
	}
	s.Order(&wire.Order{Epoch: 5})
	s.Await(waiting)
	p.puppets.None()
	s.Order(&wire.Order{Epoch: 5, Start: true})
	if got := p.puppets.Next().Variables("LOCKSTEP_EPOCH"); !cmp.Equal(got, []string{"LOCKSTEP_EPOCH=5"}) {
		t.Error("the program starts with", got)
	}
}

// Without the file the manager still says which epoch it is.
func TestEpochThatCannotBeKept(t *testing.T) {
	p := newPod(t)
	c := p.run("--epoch-file=" + p.path("no/such/folder"))
	p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 2})
	if r, _ := s.Await(waiting); r.Epoch != 2 {
		t.Error("the report is", r)
	}
	c.says("Cannot keep the epoch")
}

func TestContainerThatStartsAgainWithoutManager(t *testing.T) {
	p := newPod(t)
	p.manager.Stop()
	first := p.run()
	p.puppets.Next()
	first.kill()
	p.run("--manager-timeout=1ns")
	if got := p.puppets.Next().Variables("LOCKSTEP_EPOCH"); !cmp.Equal(got, []string{"LOCKSTEP_EPOCH=1"}) {
		t.Error("the program starts with", got)
	}
}

// A container that starts after the manager's authority has changed is one of a pod that has been told of it.
func TestContainerThatStartsAfterANewAuthority(t *testing.T) {
	p := newPod(t)
	first := p.run()
	p.puppets.Next()
	authority := p.manager.NewCertificate(time.Now())
	p.connected(&wire.Order{Epoch: 2, Authorities: []byte(authority)}).Await(waiting)
	first.kill()
	p.manager.Stop()
	p.manager.Listen(p.manager.Address)
	p.run()
	p.connected(&wire.Order{Epoch: 2}).Await(failedState)
	if got := p.read("manager-ca.crt"); got != authority {
		t.Errorf("the authority that is kept is %q", got)
	}
}

func TestRefusal(t *testing.T) {
	p := newPod(t)
	c := p.run()
	program := p.puppets.Next()
	s := p.connected(&wire.Order{Refused: "another pod has its place"})
	s.Await(terminating)
	c.exits(codeFailed)
	program.Ended()
	c.says("another pod has its place")
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		mode    string
		code    int
	}{
		"not found in PATH": {"no-such-program-of-lockstep", "", 127},
		"no such file":      {"/no/such/file", "", 127},
		"not executable":    {"", "data", 126},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			if test.command == "" {
				p.write(test.mode, "")
				test.command = p.path(test.mode)
			}
			c := p.runCommand([]string{test.command})
			s := p.connected(&wire.Order{Epoch: 1})
			if r, _ := s.Await(failedState); int(r.Exit.GetCode()) != test.code || !strings.Contains(r.Exit.Message, test.command) {
				t.Error("the report is", r)
			}
			c.signal(syscall.SIGTERM)
			c.exits(test.code)
			c.says("Cannot start the program")
		})
	}
}

func TestSignals(t *testing.T) {
	p := newPod(t)
	c := p.run()
	program := p.puppets.Next()
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGTERM} {
		program.Do("catch", number(s))
		c.signal(s)
		if got := supervision.Receive(t, program.Signals, "signal"); got != s {
			t.Errorf("%v arrives as %v", s, got)
		}
	}
	s := p.connected(&wire.Order{Epoch: 2, Start: true}) // which comes too late
	s.Await(terminating)
	program.Exit(7)
	c.exits(7)
	p.puppets.None()
}

func TestTerminationBySignal(t *testing.T) {
	p := newPod(t)
	c := p.run()
	program := p.puppets.Next()
	c.signal(syscall.SIGTERM)
	program.Ended()
	c.exits(143)
}

// An image may name another stop signal than SIGTERM. The container ends with its program all the same, and does not wait for a restart.
func TestStopSignalsOfImages(t *testing.T) {
	for _, stop := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, sigrtmin3} {
		t.Run(stop.String(), func(t *testing.T) {
			p := newPod(t)
			c := p.run()
			program := p.puppets.Next()
			program.Do("catch", number(stop))
			c.signal(stop)
			if got := supervision.Receive(t, program.Signals, "signal"); got != stop {
				t.Errorf("it arrives as %v", got)
			}
			p.connected(&wire.Order{Epoch: 1}).Await(terminating)
			program.Exit(3)
			c.exits(3)
		})
	}
}

// A pod that was made for a later epoch waits for its gang.
func TestAPodOfALaterEpoch(t *testing.T) {
	p := newPod(t)
	p.run("--epoch=3")
	s := p.connected(&wire.Order{Epoch: 3})
	s.Await(waiting)
	p.puppets.None()
	s.Order(&wire.Order{Epoch: 3, Start: true})
	if got := p.puppets.Next().Variables("LOCKSTEP_EPOCH"); !cmp.Equal(got, []string{"LOCKSTEP_EPOCH=3"}) {
		t.Error("the program has", got)
	}
	s.Await(running)
}

// The name of a program may be a whole script. That it cannot be started fits into a report that the manager takes, of 16 KiB.
func TestAScriptForACommand(t *testing.T) {
	p := newPod(t)
	p.runCommand([]string{strings.Repeat("echo hello\n", 1500)})
	r, _ := p.connected(&wire.Order{Epoch: 1}).Await(failedState)
	if n := proto.Size(r); n > 16<<10 {
		t.Errorf("a report of %d bytes", n)
	}
}
