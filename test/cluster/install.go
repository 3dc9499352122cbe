// What is installed into a fresh API server: CRDs and Volcano's webhook configurations.

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// InstallCRDs installs the CRDs in files and folders, and returns once they are served. The garbage
// collector learns of them within 30 s; Options.CRDs installs them before it starts.
func (c *Cluster) InstallCRDs(paths ...string) error {
	_, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{
		Scheme:             c.options.Scheme,
		Paths:              paths,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	})
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	return nil
}

// webhooks are the chart's webhook configurations, with the webhook manager's own address in place
// of the Service that it has inside a cluster.
type webhooks struct {
	objects []client.Object
	// admissions are the paths that the manager has to serve for them.
	admissions []string
}

// admissionPrefix precedes the path, its slashes made dashes, in each configuration's name; the
// webhook manager finds its configurations by it.
const admissionPrefix = "volcano-admission-service"

func readWebhooks(assets, url string, ca []byte) (*webhooks, error) {
	content, err := os.ReadFile(filepath.Join(assets, webhookFile))
	if err != nil {
		return nil, fmt.Errorf("reading Volcano's webhook configurations: %w", err)
	}
	found := &webhooks{}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err == nil {
			err = found.add(document, url, ca)
		}
		if err != nil {
			return nil, fmt.Errorf("parsing Volcano's webhook configurations: %w", err)
		}
	}
}

func (w *webhooks) add(document []byte, url string, ca []byte) error {
	object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return err
	}
	switch config := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range config.Webhooks {
			address(&config.Webhooks[i].ClientConfig, url, ca)
		}
		w.keep(config)
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range config.Webhooks {
			address(&config.Webhooks[i].ClientConfig, url, ca)
		}
		w.keep(config)
	default:
		return fmt.Errorf("%T is no webhook configuration", object)
	}
	return nil
}

func (w *webhooks) keep(config client.Object) {
	w.objects = append(w.objects, config)
	path := strings.TrimPrefix(config.GetName(), admissionPrefix)
	w.admissions = append(w.admissions, strings.ReplaceAll(path, "-", "/"))
}

func address(config *admissionv1.WebhookClientConfig, url string, ca []byte) {
	if config.Service != nil && config.Service.Path != nil {
		url += *config.Service.Path
	}
	*config = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
}

func (c *Cluster) installWebhooks(ctx context.Context, hooks *webhooks) error {
	return each(ctx, hooks.objects, func(ctx context.Context, config client.Object) error {
		if err := c.client.Create(ctx, config); err != nil {
			return fmt.Errorf("creating webhook configuration %s: %w", config.GetName(), err)
		}
		return nil
	})
}
