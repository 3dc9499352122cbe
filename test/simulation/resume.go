package simulation

import (
	"slices"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Checkpoints: which ones the ranks can read, and from which they resume. Nothing of it is drawn, so that histories are as they were.

// keptCopies is how many copies of its own a rank keeps.
const keptCopies = 3

// keepCheckpoint keeps what a program saves now, which counts as the step of the second: a copy that its pod loses, and every third time a checkpoint that all ranks see.
func (t *tenant) keepCheckpoint(p *pod) {
	step := t.now.Unix()
	if slices.Contains(p.copies, step) {
		return
	}
	p.copies = append(slices.Clone(p.copies), step)
	p.copies = p.copies[max(0, len(p.copies)-keptCopies):]
	if step%3 == 0 {
		t.shared = append(slices.Clone(t.shared), step)
	}
}

// readable is what a supervisor finds; nil where a file system does not answer, as one in five does.
func (t *tenant) readable(p *pod) *wire.Checkpoints {
	if (t.now.Unix()+int64(p.Index))%5 == 0 {
		return nil
	}
	return &wire.Checkpoints{Own: p.copies, Shared: t.shared}
}

// checkResume is called where a program starts by an order: it can read the step of that order, and all programs of its run start from the same one.
func (t *tenant) checkResume(p *pod, e, step int64) {
	t.require(Barrier, step == 0 || slices.Contains(p.copies, step) || slices.Contains(t.shared, step), "the program of pod %s resumes from step %d, which it cannot read", p.Name, step)
	if step > 0 {
		t.happened("programs resume from a step")
	}
	for _, q := range t.pods {
		together := q != p && q.running && q.epoch == e && !q.alone && q.machine != nil
		t.require(Barrier, !together || q.resumes == step, "the program of pod %s resumes in epoch %d from step %d, and that of pod %s from step %d", p.Name, e, step, q.Name, q.resumes)
	}
}
