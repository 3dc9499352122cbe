// Rank: from start to the end, and what ends it earlier.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/checkpoint"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/gang"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/model"
)

type rank struct {
	*config
	*events
	store   *checkpoint.Store
	savings *savings
	server  *http.Server
	teacher model.Teacher
	gang    *gang.Gang

	state   model.State
	stream  *model.Stream
	history *losses.Writer // rank 0's

	ending sync.Once
	// trained and terminated are whether training has begun, and whether it is to end.
	trained, terminated atomic.Bool
}

func newRank(c *config, e *events) *rank {
	r := &rank{config: c, events: e, teacher: model.NewTeacher(c.shape, c.seed), savings: newSavings()}
	r.store = &checkpoint.Store{
		Local: c.local, Shared: c.shared, Rank: c.rank, Incarnation: c.incarnation,
		Fingerprint: c.fingerprint(), Keep: c.keep,
		Ignored: func(path string, why error) {
			e.emit("checkpoint_ignored", "file", path, "reason", why)
		},
		Refused: func(path string, why error) {
			e.emit("refused", "file", path, "reason", why)
		},
	}
	return r
}

var (
	errNoCheckpoint = errors.New("there is no checkpoint that all ranks can load")
	errUsage        = errors.New("a flag is wrong")
	errTerminated   = errors.New("SIGTERM")
)

// run does not return.
func (r *rank) run() {
	r.emit("start", "pid", os.Getpid(), "run", r.config.run, "attempt", r.attempt, "world", r.world,
		"resume", r.resume, "reason", r.reason, "hypernode", r.home, "host", hostname(), "flags", r.fingerprint())
	if err := r.store.Claim(); err != nil {
		r.end(err)
	}
	if m := r.finished(); m != nil {
		r.done(m)
		os.Exit(exitDone)
	}
	if err := r.serve(); err != nil {
		r.end(fmt.Errorf("%w: -http=%s cannot be listened at, set another address: %w", errUsage, r.http, err))
	}
	err := r.join()
	if err == nil {
		err = r.survive(r.train())
	}
	r.leave()
	r.end(err)
}

// join finds the others, and loads the step that all agree on.
func (r *rank) join() error {
	r.store.Sweep()
	found, err := r.store.Scan()
	if err != nil {
		return err
	}
	offers := []gang.Offer{}
	for _, f := range found {
		r.emit("checkpoint_found", "step", f.Step, "place", f.Place, "by", f.Incarnation, "digest", f.Digest)
		offers = append(offers, gang.Offer{Step: f.Step, Digest: f.Digest})
	}
	r.emit("joining", "rendezvous", r.rendezvous, "timeout", r.joinTimeout)
	r.gang, err = gang.Join(context.Background(), gang.Config{
		Rank: r.rank, World: r.world, Incarnation: r.incarnation,
		Run: r.config.run, Fingerprint: r.fingerprint(), Offers: offers,
		Listen: r.listen, Advertise: r.announce, RootAddr: r.rootAddr,
		PeerTimeout: r.peerTimeout, JoinTimeout: r.joinTimeout, Claimed: r.store.Claimed,
		Waiting: func(what string) { r.emit("waiting", "for", what) },
	})
	if err != nil {
		return err
	}
	go r.watch()
	r.emit("gang", "world", r.world, "generation", fmt.Sprintf("%016x", r.gang.Generation), "resume_step", r.gang.ResumeStep)
	return r.load(r.gang.ResumeStep)
}

// watch ends the process as soon as a peer is lost, whatever the training is busy with. A survivor that saves ends by itself.
func (r *rank) watch() {
	<-r.gang.Lost()
	if !r.survivorsSave {
		r.end(r.gang.Reason())
	}
}

// load takes the state of a step, and returns once all ranks have done so.
func (r *rank) load(step int) error {
	r.stream = model.RankStream(r.dataSeed, r.rank)
	if step == 0 {
		if r.resume {
			r.emit("warning", "what", "LOCKSTEP_RESUME=true, and "+errNoCheckpoint.Error()+": training starts from step 0")
		}
		if r.resume && r.requireCheckpoint {
			return errNoCheckpoint
		}
		r.state = model.State{Params: r.shape.Init(r.seed), Velocity: make([]float64, r.shape.Size())}
	} else {
		c, f, err := r.store.Load(step)
		if err != nil {
			return err
		}
		if err := r.stream.Unmarshal(c.Stream); err != nil {
			return err
		}
		r.state = c.State
		r.emit("resumed", "step", step, "place", f.Place, "by", f.Incarnation, "digest", f.Digest, "file", f.Path)
	}
	if err := r.store.Resumed(step); err != nil {
		return err
	}
	return r.gang.Ready(r.state.Digest())
}

// train makes the steps that are left.
func (r *rank) train() error {
	if r.rank == 0 {
		var err error
		if r.history, err = losses.Open(r.lossDir(), r.incarnation); err != nil {
			return err
		}
		defer r.history.Close()
	}
	r.trained.Store(true)
	r.savings.open()
	defer r.savings.close()
	for r.state.Step < r.steps {
		if r.terminated.Load() {
			return errTerminated
		}
		save, err := advance(r)
		if err != nil {
			return err
		}
		if save {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	return r.finish()
}

// advance is how train makes a step. The tests have a run wait there.
var advance = (*rank).step

// step makes one step, and says whether all ranks save after it.
func (r *rank) step() (save bool, err error) {
	began := time.Now()
	samples := r.stream.Marshal()
	n := r.batch / r.world
	v := make([]float64, r.shape.Size()+1) // the gradient, and the loss
	grad := v[:r.shape.Size()]
	v[len(grad)] = r.shape.Gradient(r.state.Params, grad, r.teacher.Batch(r.stream, n))
	if wait := r.stepTime - time.Since(began); wait > 0 {
		time.Sleep(wait)
	}
	next := r.state.Step + 1
	wanted, err := r.gang.Reduce(next, v, r.savings.wanted())
	if err != nil {
		return false, errors.Join(err, r.stream.Unmarshal(samples)) // the stream is where the state is
	}
	r.state.Loss = v[len(grad)] / float64(r.batch)
	r.optimizer.Apply(&r.state, grad, r.batch)
	if r.history != nil {
		// A process that was frozen may have been replaced meanwhile, while what the others had sent it was there already.
		if err := r.store.Admit(losses.Path(r.lossDir(), r.incarnation)); err != nil {
			return false, err
		}
		// Before the checkpoint: no resume can go on from a step that the history lacks.
		line := losses.NewLine(next, r.state.Loss, r.incarnation, r.gang.Generation)
		if err := r.history.Append(line); err != nil {
			return false, err
		}
	}
	if next%r.logEvery == 0 || next == r.steps {
		r.emit("step", append([]any{"step", next}, lossFields(r.state.Loss)...)...)
	}
	return wanted || next%r.every == 0 || next == r.steps, nil
}

func (r *rank) checkpoint() *checkpoint.Checkpoint {
	return &checkpoint.Checkpoint{State: r.state, Stream: r.stream.Marshal()}
}

// survive saves the last whole step where training has ended because a peer is lost, or this rank is to end, and returns why it ends.
func (r *rank) survive(ended error) error {
	_, lost := errors.AsType[*gang.LostError](ended)
	if (!lost && !errors.Is(ended, errTerminated)) || !r.survivorsSave || r.state.Step == 0 {
		return ended
	}
	err := r.store.Save(r.checkpoint())
	if errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	if err != nil {
		r.emit("checkpoint_failed", "step", r.state.Step, "reason", err)
		return ended
	}
	r.emit("survivor_saved", "step", r.state.Step, "digest", r.state.Digest())
	return ended
}

// save writes this rank's checkpoint and returns once all ranks have theirs, or have failed to.
func (r *rank) save() error {
	requests := r.savings.take()
	began := time.Now()
	saveErr := r.store.Save(r.checkpoint())
	if errors.Is(saveErr, checkpoint.ErrFenced) {
		return saveErr
	}
	if saveErr != nil {
		r.emit("checkpoint_failed", "step", r.state.Step, "reason", saveErr)
	}
	digest := r.state.Digest()
	all, err := r.gang.Saved(saveErr == nil, digest)
	requests.answer(all && err == nil)
	if err != nil {
		return err
	}
	r.emit("checkpoint", "step", r.state.Step, "saved", saveErr == nil, "all", all, "digest", digest,
		"requested", len(requests), "seconds", fmt.Sprintf("%.3f", time.Since(began).Seconds()))
	if !all {
		return nil // the older ones are still needed
	}
	if err := r.store.Prune(r.state.Step); err != nil {
		r.emit("warning", "what", "old checkpoints stay: "+err.Error())
	}
	return nil
}
