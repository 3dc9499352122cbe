package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
)

// find returns the job that the arguments name, and the rank if they name one.
func (c *cluster) find(ctx context.Context, args []string) (*v1alpha1.TrainingJob, *why.Subject, error) {
	if pod, ok := strings.CutPrefix(args[0], "pod/"); ok && len(args) == 1 {
		return c.findByPod(ctx, pod)
	}
	job, err := c.job(ctx, args[0])
	if apierrors.IsNotFound(err) {
		if _, _, notFound := c.findByPod(ctx, args[0]); notFound == nil {
			err = fmt.Errorf("%s is a pod and no TrainingJob: ask with `kubectl lockstep why pod/%s`", args[0], args[0])
		}
	}
	if err != nil || len(args) == 1 {
		return job, nil, err
	}
	sub, err := why.Find(job, args[1])
	return job, &sub, err
}

// findByPod finds the job of a pod, and the rank, by the name of the pod.
func (c *cluster) findByPod(ctx context.Context, name string) (*v1alpha1.TrainingJob, *why.Subject, error) {
	jobs := &v1alpha1.TrainingJobList{}
	if err := c.List(ctx, jobs, client.InNamespace(c.namespace)); err != nil {
		return nil, nil, fmt.Errorf("find the TrainingJob of pod %s: %w", name, err)
	}
	for i := range jobs.Items {
		if sub, err := why.Find(&jobs.Items[i], name); err == nil && sub.Pod == name {
			return &jobs.Items[i], &sub, nil
		}
	}
	return nil, nil, fmt.Errorf("%q is no name of a pod of a TrainingJob in namespace %s: these are JOB-ATTEMPT-TASK-INDEX, and the TrainingJob has to exist", name, c.namespace)
}

// snapshot reads what an answer needs. What cannot be read is noted in it.
func (c *cluster) snapshot(ctx context.Context, job *v1alpha1.TrainingJob, sub *why.Subject) *why.Snapshot {
	s := &why.Snapshot{Job: job}
	note := func(what string, err error) {
		if err != nil && !slices.ContainsFunc(s.Unread, func(u why.Unread) bool { return u.What == what }) {
			s.Unread = append(s.Unread, why.Unread{What: what, Err: translate(err)})
		}
	}
	list := func(what string, into client.ObjectList, options ...client.ListOption) {
		note(what, c.List(ctx, into, options...))
	}
	here := client.InNamespace(job.Namespace)

	pods, groups := &corev1.PodList{}, &scheduling.PodGroupList{}
	list("pods", pods, here, ofJob(job))
	ofAttempt := ofJob(job) // Volcano gives a PodGroup the labels of its Job
	ofAttempt[v1alpha1.LabelAttempt] = strconv.Itoa(int(job.Status.Attempt))
	list("PodGroups", groups, here, ofAttempt)
	if len(groups.Items) > 0 {
		s.PodGroup = &groups.Items[0]
	}
	queue := &scheduling.Queue{}
	switch err := c.Get(ctx, client.ObjectKey{Name: job.Spec.Queue}, queue); {
	case err == nil:
		s.Queue = queue
	case apierrors.IsNotFound(err):
		s.NoQueue = true
	default:
		note("Queue "+job.Spec.Queue, err)
	}
	about := []string{job.Name}
	if sub != nil {
		about = append(about, sub.Pod)
	}
	for _, name := range about {
		events := &corev1.EventList{}
		list("Events", events, here, client.MatchingFields{"involvedObject.name": name})
		s.Events = append(s.Events, events.Items...)
	}
	nodes, healths := &corev1.NodeList{}, &v1alpha1.NodeHealthList{}
	list("nodes", nodes)
	s.Pods, s.Nodes, s.Now = pods.Items, nodes.Items, c.clock.Now()
	list("NodeHealths", healths)
	s.NodeHealths = s.Concerned(sub, healths.Items)
	tree, err := c.hyperNodes(ctx, nodes.Items)
	if note("HyperNodes", err); len(nodes.Items) > 0 {
		s.Topology = tree
	}
	if s.Waits() {
		ofAll := &scheduling.PodGroupList{}
		list("PodGroups of all namespaces", ofAll)
		s.Usage, err = c.usage(ctx, ofAll.Items)
		note("pods of all namespaces", err)
	}
	return s
}

func ofJob(job *v1alpha1.TrainingJob) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelUID: string(job.UID)}
}

// usage reads what the pods of the cluster take. The PodGroups say of which queues these are.
func (c *cluster) usage(ctx context.Context, groups []scheduling.PodGroup) (*capacity.Usage, error) {
	usage := capacity.NewUsage(groups)
	err := c.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		usage.Add(o.(*corev1.Pod))
		return nil
	}, running...)
	if err != nil {
		return nil, err
	}
	return usage, nil
}
