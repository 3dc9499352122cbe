package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// whyReader reads what answers are made of.
type whyReader struct{ *cluster }

// find returns the job that the arguments name, and the rank if they name one.
func (r *whyReader) find(ctx context.Context, args []string) (*v1alpha1.TrainingJob, *why.Subject, error) {
	if pod, ok := strings.CutPrefix(args[0], "pod/"); ok && len(args) == 1 {
		return r.findByPod(ctx, pod)
	}
	job, err := r.job(ctx, args[0])
	if apierrors.IsNotFound(err) {
		if _, _, notFound := r.findByPod(ctx, args[0]); notFound == nil {
			err = fmt.Errorf("%s is a pod and no TrainingJob: ask with `kubectl lockstep why pod/%s`", args[0], args[0])
		}
	}
	if err != nil || len(args) == 1 {
		return job, nil, err
	}
	sub, err := findRank(job, args[1])
	return job, &sub, err
}

// findRank finds the rank of a job that an argument names.
func findRank(job *v1alpha1.TrainingJob, text string) (why.Subject, error) {
	sub, ok := why.Find(job, text)
	if !ok {
		return sub, fmt.Errorf("%q names no rank of TrainingJob %s: give one of %s, or the name of its pod", text, job.Name, why.Ranks(job))
	}
	return sub, nil
}

// findByPod finds the job of a pod by the pod's label, or where there is no such pod by its name.
func (r *whyReader) findByPod(ctx context.Context, name string) (*v1alpha1.TrainingJob, *why.Subject, error) {
	pod := &corev1.Pod{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, pod); err == nil && pod.Labels[v1alpha1.LabelJob] == "" {
		return nil, nil, fmt.Errorf("pod %s belongs to no TrainingJob: it has no label %s", name, v1alpha1.LabelJob)
	}
	jobs := &v1alpha1.TrainingJobList{}
	if err := r.List(ctx, jobs, client.InNamespace(r.namespace)); err != nil {
		return nil, nil, fmt.Errorf("find the TrainingJob of pod %s: %w", name, err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if owner := pod.Labels[v1alpha1.LabelJob]; owner != "" && owner != job.Name {
			continue
		}
		if sub, ok := why.Find(job, "pod/"+name); ok && sub.Pod == name {
			return job, &sub, nil
		}
	}
	var names []string
	for i := range jobs.Items {
		names = append(names, why.PodNames(&jobs.Items[i])...)
	}
	return nil, nil, fmt.Errorf("%q is no name of a pod of a TrainingJob in namespace %s: these are JOB-ATTEMPT-TASK-INDEX, and the TrainingJob has to exist%s", name, r.namespace, didYouMean(name, names, ""))
}

// snapshot reads what an answer needs. What cannot be read is noted in it.
func (r *whyReader) snapshot(ctx context.Context, job *v1alpha1.TrainingJob, sub *why.Subject, now time.Time) *why.Snapshot {
	s := &why.Snapshot{Now: now, Job: job}
	note := func(what string, err error) {
		if err != nil {
			s.Unread = append(s.Unread, why.Unread{What: what, Err: translate(err)})
		}
	}
	note("pods", r.readPods(ctx, s))
	note("PodGroups", r.readPodGroup(ctx, s))
	note("Queue "+job.Spec.Queue, r.readQueue(ctx, s))
	note("Events", r.readEvents(ctx, s, sub))
	note("nodes", r.readNodes(ctx, s, sub))
	note("NodeHealths", r.readHealth(ctx, s, sub))
	note("HyperNodes", r.readHyperNodes(ctx, s))
	if s.Waits() {
		note("pods of all namespaces", r.readUsage(ctx, s))
	}
	return s
}

func ofJob(job *v1alpha1.TrainingJob) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelUID: string(job.UID)}
}

func (r *whyReader) readPods(ctx context.Context, s *why.Snapshot) error {
	list := &corev1.PodList{}
	err := r.List(ctx, list, client.InNamespace(s.Job.Namespace), ofJob(s.Job))
	s.Pods = list.Items
	return err
}

// readPodGroup reads the PodGroup of the present attempt. Volcano gives it the labels of its Job.
func (r *whyReader) readPodGroup(ctx context.Context, s *why.Snapshot) error {
	labels := ofJob(s.Job)
	labels[v1alpha1.LabelAttempt] = strconv.Itoa(int(s.Job.Status.Attempt))
	list := &scheduling.PodGroupList{}
	err := r.List(ctx, list, client.InNamespace(s.Job.Namespace), labels)
	if len(list.Items) > 0 {
		s.PodGroup = &list.Items[0]
	}
	return err
}

func (r *whyReader) readQueue(ctx context.Context, s *why.Snapshot) error {
	queue := &scheduling.Queue{}
	err := r.Get(ctx, client.ObjectKey{Name: s.Job.Spec.Queue}, queue)
	if err == nil {
		s.Queue = queue
	}
	if apierrors.IsNotFound(err) {
		s.NoQueue = true
		return nil
	}
	return err
}

// readEvents reads the events of the job, and of the pod that is asked about.
func (r *whyReader) readEvents(ctx context.Context, s *why.Snapshot, sub *why.Subject) error {
	names := []string{s.Job.Name}
	if sub != nil {
		names = append(names, sub.Pod)
	}
	for _, name := range names {
		list := &corev1.EventList{}
		if err := r.List(ctx, list, client.InNamespace(s.Job.Namespace), client.MatchingFields{"involvedObject.name": name}); err != nil {
			return err
		}
		s.Events = append(s.Events, list.Items...)
	}
	return nil
}

// readNodes reads the nodes of a rank; and of a job, or while a pod waits for a node, all.
func (r *whyReader) readNodes(ctx context.Context, s *why.Snapshot, sub *why.Subject) error {
	found := map[string]corev1.Node{}
	if sub == nil || s.Waits() {
		list := &corev1.NodeList{}
		if err := r.List(ctx, list); err != nil {
			return err
		}
		for _, n := range list.Items {
			found[n.Name] = n
		}
	}
	if sub != nil {
		for _, name := range s.NodesOf(*sub) {
			node := corev1.Node{}
			switch err := r.Get(ctx, client.ObjectKey{Name: name}, &node); {
			case err == nil:
				found[name] = node
			case !apierrors.IsNotFound(err):
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		s.Nodes = append(s.Nodes, found[name])
	}
	return nil
}

// readHealth reads the NodeHealths of the nodes that the answer is about. A node that nobody reports on has none.
func (r *whyReader) readHealth(ctx context.Context, s *why.Snapshot, sub *why.Subject) error {
	if sub == nil {
		list := &v1alpha1.NodeHealthList{}
		err := r.List(ctx, list)
		s.NodeHealths = s.Concerned(list.Items)
		return err
	}
	for _, name := range s.NodesOf(*sub) {
		health := v1alpha1.NodeHealth{}
		switch err := r.Get(ctx, client.ObjectKey{Name: name}, &health); {
		case err == nil:
			s.NodeHealths = append(s.NodeHealths, health)
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// readHyperNodes reads the tree of HyperNodes above the nodes that were read.
func (r *whyReader) readHyperNodes(ctx context.Context, s *why.Snapshot) error {
	if len(s.Nodes) == 0 {
		return nil
	}
	list := &topologyv1alpha1.HyperNodeList{}
	if err := r.List(ctx, list); err != nil {
		return err
	}
	s.Topology = topology.New(hypernodes.Resolve(list.Items, s.Nodes))
	return nil
}

// readUsage reads what the pods of the cluster take, and of which PodGroups these are.
func (r *whyReader) readUsage(ctx context.Context, s *why.Snapshot) error {
	groups := &scheduling.PodGroupList{}
	if err := r.List(ctx, groups); err != nil {
		return err
	}
	usage := capacity.NewUsage(groups.Items)
	err := r.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		usage.Add(o.(*corev1.Pod))
		return nil
	}, running...)
	if err == nil {
		s.Usage = usage
	}
	return err
}
