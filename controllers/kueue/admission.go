// Admission: a job as Kueue lets it run.

package kueue

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Admissions says which jobs Kueue has admitted.
type Admissions struct {
	// Cached reads what the cache has, and Live what the API server has.
	Cached, Live client.Reader
}

// Apply makes of a job what it is to Kueue: suspended, for the reason that is returned, or with its pods on the nodes of their flavors. That is for one pass, and is written
// nowhere. No job is stopped, and none started, for what only a cache says.
func (a *Admissions) Apply(ctx context.Context, job *v1alpha1.TrainingJob) (waits string, err error) {
	if a == nil || !IsQueued(job) || job.Spec.Suspend || gang.Finished(&job.Status) {
		return "", nil
	}
	w, waits, err := a.read(ctx, a.Cached, job)
	runs := job.Status.Attempt > 0 && job.Status.State != v1alpha1.StateSuspended
	if err == nil && runs == (waits != "") {
		w, waits, err = a.read(ctx, a.Live, job)
	}
	if err != nil {
		return "", err
	}
	if waits != "" {
		job.Spec.Suspend = true
		return waits, nil
	}
	for i := range job.Spec.Tasks {
		err := a.place(ctx, w, &job.Spec.Tasks[i])
		switch {
		case apierrors.IsNotFound(err) && runs: // Kueue lets a flavor go that no queue has, and no job stops for that
		case apierrors.IsNotFound(err):
			job.Spec.Suspend = true
			return err.Error(), nil
		case err != nil:
			return "", err
		}
	}
	return "", nil
}

// read reads the Workload of a job, and why that does not let it run.
func (a *Admissions) read(ctx context.Context, from client.Reader, job *v1alpha1.TrainingJob) (*Workload, string, error) {
	w := &Workload{}
	err := from.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: NameFor(job)}, w)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "Workload " + NameFor(job) + " of Kueue does not exist yet: an event of the job says so where it is refused", nil
	case err != nil:
		return nil, "", fmt.Errorf("get Workload %s: %w", NameFor(job), err)
	}
	return w, w.waits(job), nil
}

// place gives the pods of a task what their flavors, and the checks of their admission, have for them.
func (a *Admissions) place(ctx context.Context, w *Workload, task *v1alpha1.Task) error {
	var flavors []string
	for _, is := range w.Status.Admission.PodSetAssignments {
		if is.Name == task.Name {
			flavors = slices.Compact(slices.Sorted(maps.Values(is.Flavors)))
		}
	}
	for _, name := range flavors {
		flavor := &ResourceFlavor{}
		if err := a.Cached.Get(ctx, types.NamespacedName{Name: name}, flavor); err != nil {
			return fmt.Errorf("get ResourceFlavor %s: %w", name, err)
		}
		update(&task.Template, &PodSetUpdate{NodeSelector: flavor.Spec.NodeLabels, Tolerations: flavor.Spec.Tolerations})
	}
	for i := range w.Status.AdmissionChecks {
		for j := range w.Status.AdmissionChecks[i].PodSetUpdates {
			if u := &w.Status.AdmissionChecks[i].PodSetUpdates[j]; u.Name == task.Name {
				update(&task.Template, u)
			}
		}
	}
	return nil
}

func update(template *corev1.PodTemplateSpec, u *PodSetUpdate) {
	template.Labels = join(template.Labels, u.Labels)
	template.Annotations = join(template.Annotations, u.Annotations)
	template.Spec.NodeSelector = join(template.Spec.NodeSelector, u.NodeSelector)
	for _, t := range u.Tolerations {
		if !slices.ContainsFunc(template.Spec.Tolerations, func(is corev1.Toleration) bool { return is.MatchToleration(&t) }) {
			template.Spec.Tolerations = append(template.Spec.Tolerations, t)
		}
	}
}

// join adds to a map what another has, which counts.
func join(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	joined := maps.Clone(to)
	if joined == nil {
		joined = map[string]string{}
	}
	maps.Copy(joined, from)
	return joined
}
