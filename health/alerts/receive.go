// Receiving a payload: what each alert says, of which node, and the writes that follow.

package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// writers is how many nodes of one payload are written side by side.
const writers = 8

// Receiver turns payloads into entries.
type Receiver struct {
	// Cluster knows the nodes, and the pods of TrainingJobs; a cache will do.
	Cluster client.Reader
	Store   *Store
}

// Outcome is what became of one alert.
type Outcome string

// The outcomes of alerts.
const (
	// Applied means that the entry is as the alert says.
	Applied Outcome = "Applied"
	// Refused means that the alert's labels do not say what is needed.
	Refused Outcome = "Refused"
	// UnknownNode means that there is no node of the name that the alert gives.
	UnknownNode Outcome = "UnknownNode"
	// LeftOut means that the node has as many entries as it may have.
	LeftOut Outcome = "LeftOut"
	// Unwritten means that the API server could not be asked or would not write: Alertmanager
	// will send it again.
	Unwritten Outcome = "Unwritten"
)

// outcomes are all of them, in the order in which answers list them.
var outcomes = []Outcome{Applied, Refused, UnknownNode, LeftOut, Unwritten}

// Result says what became of the alerts of a payload.
type Result struct {
	Outcomes map[Outcome]int
	// Reasons are those of alerts that were not applied.
	Reasons []string
}

func (r *Result) add(o Outcome, reason string) {
	r.Outcomes[o]++
	if reason != "" {
		r.Reasons = append(r.Reasons, reason)
	}
}

// Receive applies a payload. What an alert lacks concerns that alert alone. An error means
// that some of it was not written, and that sending all of it again is safe.
func (r *Receiver) Receive(ctx context.Context, p Payload) (Result, error) {
	result := Result{Outcomes: map[Outcome]int{}}
	byNode := map[string][]Change{}
	var errs []error
	for i := range p.Alerts {
		where := fmt.Sprintf("alerts[%d] (%s)", i, clean(p.Alerts[i].Labels["alertname"]))
		change, err := Map(p.Alerts[i])
		if err != nil {
			result.add(Refused, fmt.Sprintf("%s: %v", where, err))
			continue
		}
		node, err := r.place(ctx, &change)
		switch {
		case err != nil:
			result.add(Unwritten, "")
			errs = append(errs, err)
		case node == "":
			result.add(UnknownNode, fmt.Sprintf("%s: no node is named %s", where, quoted(change.Nodes)))
		default:
			byNode[node] = append(byNode[node], change)
		}
	}
	return result, errors.Join(errors.Join(errs...), r.write(ctx, byNode, &result))
}

// place finds the node of a change, empty where there is none, and the pod that it concerns.
func (r *Receiver) place(ctx context.Context, c *Change) (node string, err error) {
	for _, name := range c.Nodes {
		err := r.Cluster.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("get node %s: %w", name, err)
		}
		ours, err := r.holds(ctx, c, name)
		if ours {
			c.Report.Pods = []string{c.Pod}
		}
		return name, err
	}
	if c.Ends != nil {
		return r.outlived(ctx, c.Nodes)
	}
	return "", nil
}

// outlived is the first of some names whose NodeHealth is there, and empty where none is. One in quarantine outlives its Node object, and an alert that is over is not told again.
func (r *Receiver) outlived(ctx context.Context, names []string) (string, error) {
	for _, name := range names {
		err := r.Cluster.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.NodeHealth{})
		if err == nil {
			return name, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("get the NodeHealth of node %s: %w", name, err)
		}
	}
	return "", nil
}

// holds reports whether the pod of a change is the one that the report concerns. A label pod
// that may be the exporter's own counts only where that pod is a TrainingJob's, on this node;
// otherwise nobody knows who holds the entity, and the report concerns all pods of the node.
func (r *Receiver) holds(ctx context.Context, c *Change, node string) (bool, error) {
	if c.Pod == "" || c.Holder {
		return c.Holder, nil
	}
	pod := &corev1.Pod{}
	if err := r.Cluster.Get(ctx, podKey(c.Pod), pod); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("get pod %s: %w", c.Pod, err)
	}
	return pod.Spec.NodeName == node, nil
}

func (r *Receiver) write(ctx context.Context, byNode map[string][]Change, result *Result) error {
	nodes := slices.Sorted(maps.Keys(byNode))
	var mu sync.Mutex
	errs := make([]error, len(nodes))
	// A request that is over stops each write, and not the counting of those not begun.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), writers, len(nodes), func(i int) {
		changes := byNode[nodes[i]]
		left, err := r.Store.Update(ctx, nodes[i], changes)
		mu.Lock()
		defer mu.Unlock()
		if errs[i] = err; err != nil {
			result.Outcomes[Unwritten] += len(changes)
			return
		}
		left = min(left, len(changes))
		result.Outcomes[Applied] += len(changes) - left
		if left > 0 {
			result.Outcomes[LeftOut] += left
			result.Reasons = append(result.Reasons, fmt.Sprintf("node %s has %d entries, which is the most it may have: %d are left out", nodes[i], maxReports, left))
		}
	})
	return errors.Join(errs...)
}

// quoted are names that are all tried, in quotes.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.Quote(name)
	}
	return strings.Join(out, " or ")
}
