package simulation

import (
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
)

// What happens to supervisors and their programs.

// supervisedMoves are what may happen, and how often it does.
var supervisedMoves = []struct {
	weight int
	do     func(*tenant, *pod)
}{
	{30, (*tenant).abortProgram},
	{20, (*tenant).save},
	{15, (*tenant).cutOff},
	{6, (*tenant).killSupervisor},
	{4, (*tenant).sticks},
	{1, (*tenant).endEarly},
}

// troubleSupervisors lets something happen to the supervisors of a job now and then.
func (w *world) troubleSupervisors() {
	for _, t := range w.tenants {
		if !t.supervised || t.supervision.IntN(4) > 0 {
			continue
		}
		if p := t.drawSupervised(); p != nil {
			t.troubleSupervisor(p)
		}
	}
}

// drawSupervised draws a pod whose supervisor runs; nil where none does.
func (t *tenant) drawSupervised() *pod {
	var all []*pod
	for _, p := range t.pods {
		if p.machine != nil && t.computes(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[t.supervision.IntN(len(all))]
}

func (t *tenant) troubleSupervisor(p *pod) {
	sum := 0
	for _, m := range supervisedMoves {
		sum += m.weight
	}
	at := t.supervision.IntN(sum)
	for _, m := range supervisedMoves {
		if at -= m.weight; at < 0 {
			m.do(t, p)
			t.goOn(t.supervision.IntN(6))
			return
		}
	}
}

// goOn lets the supervisors of a job and its manager take some turns, so that trouble meets every stage of a restart in place.
func (t *tenant) goOn(turns int) {
	for range turns {
		t.runSupervisors()
		t.reconcile()
		t.checkWorld()
	}
}

// abortProgram ends the program of a rank with an error; sometimes the others follow within moments.
func (t *tenant) abortProgram(p *pod) {
	if !p.running {
		return
	}
	t.happened("program of a supervised rank aborts")
	t.crash(p, []int32{1, 2, 134, 137}[t.supervision.IntN(4)])
	for _, q := range t.pods {
		if q.running && q.machine != nil && t.computes(q) && t.supervision.IntN(3) == 0 {
			t.pass(time.Duration(t.supervision.IntN(700)) * time.Millisecond)
			t.exit(q, 1, peerFault)
		}
	}
}

// save has the program of a rank save a checkpoint.
func (t *tenant) save(p *pod) {
	if p.running {
		t.happened("program saves")
		t.keepCheckpoint(p)
		t.inform(p, epoch.Progressed{})
	}
}

// cutOff cuts a supervisor off from the manager for seconds, or for minutes.
func (t *tenant) cutOff(p *pod) {
	t.happened("supervisor is cut off")
	t.cutFor(p, time.Duration(1+t.supervision.IntN([]int{20, 400}[t.supervision.IntN(2)]))*time.Second)
}

// killSupervisor ends a supervisor together with its program, as a kernel that is out of memory may.
func (t *tenant) killSupervisor(p *pod) {
	t.happened("supervisor is killed")
	t.kill(p)
}

// sticks has the processes of a rank not be stopped any more, as in a system call that does not return.
func (t *tenant) sticks(p *pod) {
	p.stuck = true
	t.happened("supervisor cannot stop its program")
	t.changed("the processes of pod %s cannot be stopped", p.Name)
}

// endEarly ends the program of a rank with 0 before the others end.
func (t *tenant) endEarly(p *pod) {
	if p.running {
		t.happened("program ends early")
		t.endProgram(p, 0)
	}
}
