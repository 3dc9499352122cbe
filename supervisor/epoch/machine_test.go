package epoch_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// moment is an event, and the second that it happens in.
type moment struct {
	second int
	event  epoch.Event
}

func at(second int, event epoch.Event) moment { return moment{second, event} }

func exit(code int32) epoch.Ended { return epoch.Ended{Exit: &wire.Exit{Code: code}} }

func wait(e int64) epoch.Ordered { return epoch.Ordered{Order: &wire.Order{Epoch: e}} }

func start(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, Start: true, Resume: true}}
}

func released(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, Start: true, Release: true}}
}

func keep(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, Start: true, Keep: true}}
}

func placed(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, Start: true, Place: &wire.Place{Environment: []string{"RANK=3"}}}}
}

// warms are the options of a spare that takes a minute at most to warm up.
func warms(e int64) epoch.Options {
	return epoch.Options{Epoch: e, Standby: true, WarmUp: time.Minute}
}

func stalled(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, Start: true, Stalled: true}}
}

func hangs(e int64) epoch.Ordered {
	return epoch.Ordered{Order: &wire.Order{Epoch: e, RestartReason: epoch.Stalled}}
}

func signalled(s syscall.Signal) epoch.Signalled { return epoch.Signalled{Signal: s} }

var (
	refusal = epoch.Ordered{Order: &wire.Order{Refused: "another pod has its place"}}
	sigterm = signalled(syscall.SIGTERM)
	up      = epoch.Connected{}
	down    = epoch.Disconnected{}
)

// A rule is read off what a machine wants after each event, one line for each.
func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		options epoch.Options
		moments []moment
		want    string
	}{
		"a program that fails is left to its kubelet at once where the manager has said so before": {
			moments: []moment{at(1, up), at(2, released(1)), at(3, exit(1))},
			want:    "persist 1, start 1 with the pod's contract, report RUNNING 1\n-\n-\nreport FAILED 1 exit 1, stop, end 1",
		},
		"the first start needs no manager": {
			want: "persist 1, start 1 with the pod's contract, report RUNNING 1",
		},
		"a spare waits for a rank in each epoch, and starts as one": {
			options: epoch.Options{Epoch: 1, Standby: true},
			moments: []moment{at(1, up), at(2, start(1)), at(3, wait(2)), at(4, epoch.Cleaned{}), at(5, start(2)), at(6, placed(3)), at(7, epoch.Cleaned{})},
			want:    "persist 1, report WAITING 1\n-\n-\npersist 2, report STOPPING 2, clean\nreport WAITING 2\n-\npersist 3, report STOPPING 3, clean\nreport WAITING 3, start 3, report RUNNING 3",
		},
		"a spare starts nothing without a manager": {
			options: epoch.Options{Epoch: 1, Standby: true},
			moments: []moment{at(60, epoch.Expired{}), at(61, up), at(62, down), at(5000, epoch.Expired{})},
			want:    "persist 1, report WAITING 1\n-\n-\n-\n-",
		},
		"a spare that has started is as any rank": {
			options: epoch.Options{Epoch: 2, Standby: true},
			moments: []moment{at(1, up), at(2, placed(2)), at(3, wait(3)), at(4, epoch.Gone{}), at(5, epoch.Cleaned{}), at(6, placed(3)), at(7, exit(1)), at(8, down), at(67, epoch.Expired{}), at(68, epoch.Expired{})},
			want:    "persist 2, report WAITING 2\n-\nstart 2, report RUNNING 2\npersist 3, report STOPPING 3, stop\nclean\nreport WAITING 3\nstart 3, report RUNNING 3\nreport FAILED 3 exit 1, stop\n-\n-\nend 1",
		},
		"a spare warms up before it waits for a rank, and once alone": {
			options: warms(1),
			moments: []moment{at(1, up), at(2, wait(2)), at(3, start(2)), at(9, exit(0)), at(10, epoch.Gone{}), at(11, epoch.Cleaned{}), at(12, wait(3)), at(13, epoch.Cleaned{})},
			want:    "persist 1, warm up, report WARMING_UP 1\n-\npersist 2, report WARMING_UP 2\n-\nreport STOPPING 2, stop\nclean\nreport WAITING 2\npersist 3, report STOPPING 3, clean\nreport WAITING 3",
		},
		"a spare that fails to warm up tries again, later each time": {
			options: warms(1),
			moments: []moment{
				at(1, up), at(2, exit(3)), at(3, released(1)), at(12, epoch.Expired{}), at(13, epoch.Gone{}), at(14, epoch.Cleaned{}), at(15, epoch.Expired{}),
				at(16, exit(3)), at(17, epoch.Gone{}), at(18, epoch.Cleaned{}), at(35, epoch.Expired{}), at(36, epoch.Expired{}),
			},
			want: "persist 1, warm up, report WARMING_UP 1\n-\nreport WARMING_UP 1 exit 3, stop\n-\n-\nclean\n-\nwarm up, report WARMING_UP 1\n" +
				"report WARMING_UP 1 exit 3, stop\nclean\n-\n-\nwarm up, report WARMING_UP 1",
		},
		"a warm-up that takes too long is killed": {
			options: warms(1),
			moments: []moment{at(1, up), at(59, epoch.Expired{}), at(60, epoch.Expired{}), at(61, epoch.Expired{}), at(62, exit(137))},
			want:    "persist 1, warm up, report WARMING_UP 1\n-\n-\nforward killed\n-\nreport WARMING_UP 1 exit 137, stop",
		},
		"a warm-up ends for a rank": {
			options: warms(2),
			moments: []moment{at(1, up), at(2, placed(2)), at(3, exit(143)), at(4, epoch.Gone{}), at(5, epoch.Cleaned{}), at(6, wait(3)), at(7, exit(0)), at(8, epoch.Gone{}), at(9, epoch.Cleaned{})},
			want: "persist 2, warm up, report WARMING_UP 2\n-\nreport STOPPING 2, stop\n-\nclean\nreport WAITING 2, start 2, report RUNNING 2\n" +
				"persist 3, report STOPPING 3, stop\n-\nclean\nreport WAITING 3",
		},
		"a spare that fails to warm up is a rank all the same": {
			options: warms(1),
			moments: []moment{at(1, up), at(2, exit(3)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{}), at(5, placed(2)), at(6, epoch.Cleaned{})},
			want: "persist 1, warm up, report WARMING_UP 1\n-\nreport WARMING_UP 1 exit 3, stop\nclean\n-\npersist 2, report STOPPING 2, clean\n" +
				"report WAITING 2, start 2, report RUNNING 2",
		},
		"SIGTERM during a warm-up": {
			options: warms(1),
			moments: []moment{at(1, up), at(2, sigterm), at(3, exit(143))},
			want:    "persist 1, warm up, report WARMING_UP 1\n-\nreport TERMINATING 1, forward terminated\nreport TERMINATING 1 exit 143, end 143",
		},
		"the pod is given a later epoch": {
			options: epoch.Options{Epoch: 4},
			moments: []moment{at(1, up), at(2, wait(4)), at(300, epoch.Expired{}), at(301, start(4))},
			want:    "persist 4, report WAITING 4\n-\n-\n-\nstart 4, report RUNNING 4",
		},
		"the pod is given a later epoch, and there is no manager": {
			options: epoch.Options{Epoch: 4},
			moments: []moment{at(59, epoch.Expired{}), at(60, epoch.Expired{})},
			want:    "persist 4, report WAITING 4\n-\nstart 4 with the pod's contract, report RUNNING 4",
		},
		"the manager is lost at the barrier": {
			options: epoch.Options{Epoch: 4},
			moments: []moment{at(1, up), at(2, wait(4)), at(3, down), at(5000, epoch.Expired{})},
			want:    "persist 4, report WAITING 4\n-\n-\n-\n-",
		},
		"a program that succeeds": {
			moments: []moment{at(1, exit(0))},
			want:    begun + "report SUCCEEDED 1 exit 0, end 0",
		},
		"a program that fails without a manager ends the container with its own code": {
			moments: []moment{at(5, exit(3)), at(5, epoch.Gone{}), at(5, epoch.Cleaned{}), at(64, epoch.Expired{}), at(65, epoch.Expired{})},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\n-\n-\nend 3",
		},
		"a program that fails while a manager is there waits for ever": {
			moments: []moment{at(1, up), at(5, exit(3)), at(5000, epoch.Expired{})},
			want:    begun + "-\nreport FAILED 1 exit 3, stop\n-",
		},
		"the time counts from the loss of the manager": {
			moments: []moment{at(1, up), at(5, exit(3)), at(100, down), at(159, epoch.Expired{}), at(160, epoch.Expired{})},
			want:    begun + "-\nreport FAILED 1 exit 3, stop\n-\n-\nend 3",
		},
		"the time counts from the failure where the manager was lost before": {
			moments: []moment{at(1, up), at(2, down), at(100, exit(3)), at(159, epoch.Expired{}), at(160, epoch.Expired{})},
			want:    begun + "-\n-\nreport FAILED 1 exit 3, stop\n-\nend 3",
		},
		"a manager that is there again ends the wait": {
			moments: []moment{at(5, exit(3)), at(64, up), at(65, epoch.Expired{})},
			want:    begun + "report FAILED 1 exit 3, stop\n-\n-",
		},
		"a running program outlives any loss of the manager": {
			moments: []moment{at(1, up), at(2, down), at(5000, epoch.Expired{})},
			want:    begun + "-\n-\n-",
		},
		"a failed program joins the next epoch": {
			moments: []moment{at(1, exit(3)), at(1, epoch.Gone{}), at(1, epoch.Cleaned{}), at(2, wait(2)), at(3, start(2))},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\n-\npersist 2, report WAITING 2\nstart 2, report RUNNING 2",
		},
		"an order during the end of what a failed program left": {
			moments: []moment{at(1, exit(3)), at(2, wait(2)), at(3, epoch.Gone{}), at(3, epoch.Cleaned{})},
			want:    begun + "report FAILED 1 exit 3, stop\npersist 2, report STOPPING 2\nclean\nreport WAITING 2",
		},
		"an order during the removal of what a failed program left": {
			moments: []moment{at(1, exit(3)), at(2, epoch.Gone{}), at(3, start(2)), at(3, epoch.Cleaned{})},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\npersist 2, report STOPPING 2\nreport WAITING 2, start 2, report RUNNING 2",
		},
		"a failed program does not start again in its epoch": {
			moments: []moment{at(1, exit(3)), at(1, epoch.Gone{}), at(1, epoch.Cleaned{}), at(2, start(1))},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\n-\n-",
		},
		"a running program is stopped, waits and starts": {
			moments: []moment{at(1, wait(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{}), at(5, wait(2)), at(6, start(2))},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\nclean\nreport WAITING 2\n-\nstart 2, report RUNNING 2",
		},
		"a program that succeeds while it is stopped joins the next epoch": {
			moments: []moment{at(1, wait(2)), at(2, exit(0)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{})},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\nclean\nreport WAITING 2",
		},
		"the barrier opens while the program is stopped": {
			moments: []moment{at(1, wait(2)), at(2, start(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{})},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\n-\nclean\nreport WAITING 2, start 2, report RUNNING 2",
		},
		"the last order of an epoch counts": {
			moments: []moment{at(1, start(2)), at(2, wait(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{})},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\n-\nclean\nreport WAITING 2",
		},
		"several raises are one stop": {
			moments: []moment{at(1, wait(2)), at(2, start(5)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{})},
			want:    begun + "persist 2, report STOPPING 2, stop\npersist 5, report STOPPING 5\n-\nclean\nreport WAITING 5, start 5, report RUNNING 5",
		},
		"a raise at the barrier": {
			moments: []moment{at(1, wait(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{}), at(5, wait(3)), at(6, start(2)), at(7, start(3))},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\nclean\nreport WAITING 2\npersist 3, report WAITING 3\n-\nstart 3, report RUNNING 3",
		},
		"at the barrier no time counts": {
			moments: []moment{at(1, wait(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{}), at(5000, epoch.Expired{})},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\nclean\nreport WAITING 2\n-",
		},
		"an order of the same or an older epoch changes nothing": {
			moments: []moment{at(1, wait(0)), at(2, wait(1)), at(3, start(1))},
			want:    begun + "-\n-\n-",
		},
		"a container that starts again waits for an order": {
			options: epoch.Options{Epoch: 4, Restarted: true},
			moments: []moment{at(1, up), at(2, start(4)), at(5000, epoch.Expired{}), at(5001, wait(5)), at(5002, epoch.Gone{}), at(5002, epoch.Cleaned{})},
			want:    "persist 4, report FAILED 4\n-\n-\n-\npersist 5, report STOPPING 5, stop\nclean\nreport WAITING 5",
		},
		"a container that starts again without a manager starts in its epoch": {
			options: epoch.Options{Epoch: 4, Restarted: true},
			moments: []moment{at(59, epoch.Expired{}), at(60, epoch.Expired{})},
			want:    "persist 4, report FAILED 4\n-\nstart 4 with the pod's contract, report RUNNING 4",
		},
		"a program goes on where survivors are kept": {
			moments: []moment{at(1, keep(2)), at(2, keep(2)), at(3, exit(3))},
			want:    begun + "persist 2, report RUNNING 2\n-\nreport FAILED 2 exit 3, stop",
		},
		"a program that has failed starts at once where survivors are kept": {
			moments: []moment{at(1, exit(3)), at(1, epoch.Gone{}), at(2, keep(2)), at(3, epoch.Cleaned{})},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\npersist 2, report STOPPING 2\nreport WAITING 2, start 2, report RUNNING 2",
		},
		"progress is reported once in an epoch": {
			moments: []moment{at(1, epoch.Progressed{}), at(2, epoch.Progressed{}), at(3, keep(2)), at(4, epoch.Progressed{})},
			want:    begun + "report RUNNING 1 progressed\n-\npersist 2, report RUNNING 2\nreport RUNNING 2 progressed",
		},
		"what is saved while the program is stopped is no progress of the next epoch": {
			moments: []moment{at(1, wait(2)), at(2, epoch.Progressed{}), at(2, exit(0)), at(3, epoch.Progressed{}), at(3, epoch.Gone{}), at(3, epoch.Cleaned{})},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\n-\n-\nclean\nreport WAITING 2",
		},
		"a program that has saved fails": {
			moments: []moment{at(1, epoch.Progressed{}), at(2, exit(3)), at(3, epoch.Progressed{})},
			want:    begun + "report RUNNING 1 progressed\nreport FAILED 1 exit 3 progressed, stop\n-",
		},
		"SIGTERM ends the container with the program's code": {
			moments: []moment{at(1, sigterm), at(2, start(2)), at(3, exit(7))},
			want:    begun + "report TERMINATING 1, forward terminated\npersist 2\nreport TERMINATING 1 exit 7, end 7",
		},
		"SIGTERM to a program that saves and succeeds": {
			moments: []moment{at(1, sigterm), at(2, sigterm), at(3, exit(0))},
			want:    begun + "report TERMINATING 1, forward terminated\nforward terminated\nreport TERMINATING 1 exit 0, end 0",
		},
		"SIGTERM after a failure": {
			moments: []moment{at(1, exit(3)), at(2, sigterm)},
			want:    begun + "report FAILED 1 exit 3, stop\nreport TERMINATING 1 exit 3, end 3",
		},
		"SIGTERM while the program is stopped": {
			moments: []moment{at(1, wait(2)), at(2, sigterm), at(3, exit(9))},
			want:    begun + "persist 2, report STOPPING 2, stop\nreport TERMINATING 2, forward terminated\nreport TERMINATING 2 exit 9, end 9",
		},
		"SIGTERM at the barrier": {
			moments: []moment{at(1, wait(2)), at(2, exit(143)), at(3, epoch.Gone{}), at(4, epoch.Cleaned{}), at(5, sigterm)},
			want:    begun + "persist 2, report STOPPING 2, stop\n-\nclean\nreport WAITING 2\nreport TERMINATING 2, end 143",
		},
		"SIGTERM in a container that starts again": {
			options: epoch.Options{Epoch: 4, Restarted: true},
			moments: []moment{at(1, sigterm)},
			want:    "persist 4, report FAILED 4\nreport TERMINATING 4, end 143",
		},
		"other signals are forwarded": {
			moments: []moment{at(1, signalled(syscall.SIGUSR1)), at(2, signalled(syscall.SIGHUP))},
			want:    begun + "forward user defined signal 1\nforward hangup",
		},
		"an image may have SIGINT as its stop signal": {
			moments: []moment{at(1, signalled(syscall.SIGINT)), at(2, start(2)), at(3, exit(130))},
			want:    begun + "report TERMINATING 1, forward interrupt\npersist 2\nreport TERMINATING 1 exit 130, end 130",
		},
		"an image may have SIGQUIT as its stop signal": {
			moments: []moment{at(1, signalled(syscall.SIGQUIT)), at(2, exit(0))},
			want:    begun + "report TERMINATING 1, forward quit\nreport TERMINATING 1 exit 0, end 0",
		},
		"an image may have SIGRTMIN+3 as its stop signal": {
			moments: []moment{at(1, signalled(37)), at(2, exit(1))},
			want:    begun + "report TERMINATING 1, forward signal 37\nreport TERMINATING 1 exit 1, end 1",
		},
		"SIGINT in a container that starts again": {
			options: epoch.Options{Epoch: 4, Restarted: true},
			moments: []moment{at(1, signalled(syscall.SIGINT))},
			want:    "persist 4, report FAILED 4\nreport TERMINATING 4, end 130",
		},
		"a signal without a program": {
			moments: []moment{at(1, exit(3)), at(2, signalled(syscall.SIGUSR1))},
			want:    begun + "report FAILED 1 exit 3, stop\n-",
		},
		"a refused pod is stopped for good": {
			moments: []moment{at(1, refusal), at(2, start(2)), at(2, refusal), at(3, exit(0)), at(4, epoch.Gone{})},
			want:    begun + "report TERMINATING 1, stop\npersist 2\n-\n-\nend 125",
		},
		"a refused pod with nothing left": {
			moments: []moment{at(1, exit(3)), at(2, epoch.Gone{}), at(3, refusal)},
			want:    begun + "report FAILED 1 exit 3, stop\nclean\nreport TERMINATING 1 exit 3, end 125",
		},
		"a refused pod that is being stopped": {
			moments: []moment{at(1, wait(2)), at(2, refusal), at(3, exit(143)), at(4, epoch.Gone{})},
			want:    begun + "persist 2, report STOPPING 2, stop\nreport TERMINATING 2\n-\nend 125",
		},
		"a refusal cuts a termination short": {
			moments: []moment{at(1, sigterm), at(2, refusal), at(3, exit(143)), at(4, epoch.Gone{})},
			want:    begun + "report TERMINATING 1, forward terminated\nreport TERMINATING 1, stop\n-\nend 125",
		},
		"nothing happens after the end": {
			moments: []moment{at(1, exit(0)), at(2, start(2)), at(3, sigterm)},
			want:    begun + "report SUCCEEDED 1 exit 0, end 0\n-\n-",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.options.Epoch == 0 {
				test.options.Epoch = 1
			}
			test.options.ManagerTimeout = time.Minute
			if diff := cmp.Diff(test.want, play(test.options, test.moments)); diff != "" {
				t.Error("-want +got:\n" + diff)
			}
		})
	}
}

// The program of a gang that hangs is asked where it is before it ends, by an order or by a signal.
func TestWhereAGangHangsIsAskedFirst(t *testing.T) {
	for name, test := range map[string]struct {
		moments []moment
		want    string
	}{
		"a gang that has stalled is asked where it is before a program ends": {
			moments: []moment{at(1, stalled(1)), at(2, signalled(syscall.SIGUSR1)), at(2, sigterm), at(3, exit(143))},
			want:    begun + "-\nforward user defined signal 1\nreport TERMINATING 1, forward terminated for Stalled\nreport TERMINATING 1 exit 143, end 143",
		},
		"a program that is asked where it is before it is stopped does not end by the kubelet's signal": {
			moments: []moment{at(1, hangs(2)), at(2, signalled(syscall.SIGUSR1)), at(2, sigterm), at(3, exit(143))},
			want:    begun + "persist 2, report STOPPING 2, stop for Stalled\nforward user defined signal 1\nreport TERMINATING 2\nreport TERMINATING 2 exit 143, end 143",
		},
		"nor where another order comes meanwhile": {
			moments: []moment{at(1, hangs(2)), at(1, wait(2)), at(2, sigterm), at(3, exit(143))},
			want:    begun + "persist 2, report STOPPING 2, stop for Stalled\n-\nreport TERMINATING 2\nreport TERMINATING 2 exit 143, end 143",
		},
		"one that is stopped for another reason may": {
			moments: []moment{at(1, wait(2)), at(2, sigterm), at(3, exit(143))},
			want:    begun + "persist 2, report STOPPING 2, stop\nreport TERMINATING 2, forward terminated\nreport TERMINATING 2 exit 143, end 143",
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "actions", test.want, play(epoch.Options{Epoch: 1, ManagerTimeout: time.Minute}, test.moments))
		})
	}
}

// begun is how most tests begin.
const begun = "persist 1, start 1 with the pod's contract, report RUNNING 1\n"

func play(o epoch.Options, moments []moment) string {
	m := epoch.New(o)
	var lines []string
	for _, moment := range append([]moment{at(0, epoch.Began{})}, moments...) {
		lines = append(lines, describe(m.Handle(time.Unix(int64(moment.second), 0), moment.event)))
	}
	return strings.Join(lines, "\n")
}

func describe(actions []epoch.Action) string {
	if len(actions) == 0 {
		return "-"
	}
	var words []string
	for _, a := range actions {
		words = append(words, word(a))
	}
	return strings.Join(words, ", ")
}

func why(reason string) string {
	if reason == "" {
		return ""
	}
	return " for " + reason
}

func word(a epoch.Action) string {
	switch a := a.(type) {
	case epoch.Persist:
		return fmt.Sprint("persist ", a.Epoch)
	case epoch.Start:
		if a.Order == nil {
			return fmt.Sprintf("start %d with the pod's contract", a.Epoch)
		}
		return fmt.Sprint("start ", a.Epoch)
	case epoch.WarmUp:
		return "warm up"
	case epoch.Stop:
		return "stop" + why(a.Reason)
	case epoch.Clean:
		return "clean"
	case epoch.Forward:
		return fmt.Sprint("forward ", a.Signal, why(a.Reason))
	case epoch.Report:
		text := fmt.Sprintf("report %s %d", strings.TrimPrefix(a.State.String(), "STATE_"), a.Epoch)
		if a.Exit != nil {
			text += fmt.Sprint(" exit ", a.Exit.Code)
		}
		if a.Progressed {
			text += " progressed"
		}
		return text
	case epoch.End:
		return fmt.Sprint("end ", a.Code)
	}
	return fmt.Sprintf("%T", a)
}
