// Reporting: the agent's state and the cluster's record of it, kept the same.

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
)

// readEvery is how often the NodeHealth is read for an acknowledgement: 83 reads a second
// for 5,000 nodes.
const readEvery = time.Minute

// Reporter brings what an agent finds into the cluster. The caller evaluates between
// Begin and Report.
type Reporter struct {
	Publisher *Publisher
	// Holders asks which pods hold which devices.
	Holders func(context.Context) (map[string][]string, error)
	Metrics *Metrics

	restored  bool
	nextRead  time.Time
	published []v1alpha1.HealthReport
}

// Begin returns the state with what the cluster knows: at first what was published by the
// agent before, so that its restart heals nothing, and from then on acknowledgements.
func (r *Reporter) Begin(ctx context.Context, now time.Time, state health.State) (health.State, error) {
	if now.Before(r.nextRead) {
		return state, nil
	}
	own, acknowledged, err := r.Publisher.Read(ctx)
	if err != nil {
		return state, err
	}
	r.nextRead = now.Add(readEvery)
	if !r.restored {
		r.restored, r.published = true, own.Reports
		if len(own.Sources) > 0 {
			state = health.Restore(own.Reports, own.Sources[0], state.Expected())
		}
	}
	// One of a clock that is ahead counts once its time has come: until then it would hide what is new.
	if acknowledged != nil && !acknowledged.After(now) {
		state = health.Acknowledge(state, acknowledged.Time)
	}
	return state, nil
}

// Report publishes a state, unless what was published before has not been read yet. The remark
// is what else there is to say of the source, such as what is wrong with its configuration; why
// its state is Unknown goes before it.
func (r *Reporter) Report(ctx context.Context, now time.Time, state health.State, remark string) error {
	if !r.restored {
		return nil
	}
	reports, source, spinning := health.Reports(state), health.Source(state, remark), state.Spinning()
	var asked error
	if len(reports) > 0 || len(spinning) > 0 {
		var holders map[string][]string
		holders, asked = r.Holders(ctx)
		reports, source.Spinning = Attribute(reports, r.published, holders, asked == nil), Spinning(spinning, holders)
	}
	wrote, err := r.Publisher.Publish(ctx, now, source, reports)
	r.Metrics.Published(now, wrote, err)
	if err == nil {
		r.published = reports
	}
	return errors.Join(asked, err)
}
