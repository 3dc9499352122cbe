package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/test/check"
)

func volcanoScheduler(name string, images ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: name, Labels: schedulerLabel}}
	for _, image := range images {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Image: image})
	}
	return d
}

func TestWhenPodsAreBoundDirectly(t *testing.T) {
	tests := map[string]struct {
		deployments []client.Object
		version     string // the flag
		want        string // the reason why not
	}{
		"tested":              {[]client.Object{volcanoScheduler("a", "docker.io/volcanosh/vc-scheduler:v1.14.1")}, "", ""},
		"with a digest":       {[]client.Object{volcanoScheduler("a", "reg:5000/vc-scheduler:v1.14.1@sha256:00")}, "", ""},
		"two of one version":  {[]client.Object{volcanoScheduler("a", "s:v1.14.1"), volcanoScheduler("b", "s:v1.14.1")}, "", ""},
		"another version":     {[]client.Object{volcanoScheduler("a", "s:v1.15.0")}, "", "it was not tested with Volcano v1.15.0, but with 1.14.1"},
		"a tag, no version":   {[]client.Object{volcanoScheduler("a", "s:latest")}, "", `the version of Volcano is not known: could not parse "latest" as version`},
		"told":                {nil, "1.14.1", ""},
		"told, not the image": {[]client.Object{volcanoScheduler("a", "s:v1.15.0")}, "v1.14.1", ""},
		"none": {nil, "",
			`the Deployments labelled app=volcano-scheduler have the image tags [], and one was expected: set --volcano-version`},
		"two versions": {[]client.Object{volcanoScheduler("a", "s:v1.14.1"), volcanoScheduler("b", "s:v1.15.0")}, "",
			`the Deployments labelled app=volcano-scheduler have the image tags ["v1.14.1" "v1.15.0"], and one was expected: set --volcano-version`},
		"no tag": {[]client.Object{volcanoScheduler("a", "reg:5000/vc-scheduler")}, "",
			`the Deployments labelled app=volcano-scheduler have the image tags [], and one was expected: set --volcano-version`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &DirectBinding{Reader: newEnv(t, tc.deployments...).API, Version: tc.version}
			check.Equal(t, "allows", tc.want == "", d.allows(t.Context(), t0))
			check.Equal(t, "reason", tc.want, d.told)
		})
	}
}

// Volcano may be upgraded, and the API server may not answer: then the last answer counts.
func TestVolcanosVersionIsLookedUpAgain(t *testing.T) {
	e := newEnv(t, volcanoScheduler("a", "s:v1.14.1"))
	lists, down := 0, true
	reader := interceptor.NewClient(e.Restart(interceptor.Funcs{}), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			if down {
				return errors.New("down")
			}
			return c.List(ctx, list, opts...)
		},
	})
	d, now := &DirectBinding{Reader: reader}, t0
	allows := func(after time.Duration) bool { now = now.Add(after); return d.allows(t.Context(), now) }
	check.Equal(t, "while nothing is known", false, allows(0))
	check.Equal(t, "a moment later", false, allows(versionRetry-time.Second))
	check.Equal(t, "lists", 1, lists)
	down = false
	check.Equal(t, "once the API server answers", true, allows(time.Second))
	down = true
	check.Equal(t, "a minute later, while it does not", true, allows(versionFor))
	down = false
	scheduler := volcanoScheduler("a", "s:v1.14.1")
	e.Must(e.API.Get(t.Context(), client.ObjectKeyFromObject(scheduler), scheduler))
	scheduler.Spec.Template.Spec.Containers[0].Image = "s:v1.15.0"
	e.Must(e.API.Update(t.Context(), scheduler))
	check.Equal(t, "after an upgrade", false, allows(versionRetry))
	check.Equal(t, "nil", false, (*DirectBinding)(nil).allows(t.Context(), now))
}
