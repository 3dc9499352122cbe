// When a component counts as ready. When all of them together do is in probe.go.

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

type readiness = func(context.Context) error

// prober asks components over HTTP.
type prober struct{ http *http.Client }

func newProber(pki *authority) prober {
	pool := x509.NewCertPool()
	pool.AddCert(pki.cert)
	return prober{&http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}}
}

// ok is ready once the URL answers with success.
func (p prober) ok(url string) readiness {
	return func(ctx context.Context) error {
		status, body, err := p.get(ctx, url)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s answered %d: %s", url, status, body)
		}
		return err
	}
}

// answers is ready once the URL answers with anything.
func (p prober) answers(url string) readiness {
	return func(ctx context.Context) error {
		_, _, err := p.get(ctx, url)
		return err
	}
}

func (p prober) get(ctx context.Context, url string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return response.StatusCode, body, err
}

// eventually polls a check until it passes; its last error says what was still wrong.
func eventually(ctx context.Context, what string, check readiness) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, usableTimeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, errors.Join(last, context.Cause(ctx)))
	}
	return nil
}

func (c *Cluster) serviceAccountExists(ctx context.Context) error {
	return c.client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "default"}, &corev1.ServiceAccount{})
}

// webhooksAnswer tries a Volcano Job without keeping it. The API server learns of the webhooks a
// moment after they are created; till then a Job is neither completed nor refused.
func (c *Cluster) webhooksAnswer(ctx context.Context) error {
	queue := &schedulingv1beta1.Queue{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: "default"}, queue); err != nil {
		return err
	}
	if queue.Status.State != schedulingv1beta1.QueueStateOpen {
		return fmt.Errorf("queue %s is %q, not open", queue.Name, queue.Status.State)
	}
	job := VolcanoJob("probe", "", 1, 1)
	if err := c.client.Create(ctx, job, client.DryRunAll); err != nil {
		return err
	}
	if job.Spec.MaxRetry == 0 {
		return errors.New("the mutating webhook is not called yet")
	}
	bad := VolcanoJob("probe", "", 1, 1)
	bad.Spec.Tasks = []batchv1alpha1.TaskSpec{}
	if err := c.client.Create(ctx, bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "admission webhook") {
		return errors.Join(errors.New("the validating webhook is not called yet"), err)
	}
	return nil
}
