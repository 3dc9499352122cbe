// The manifests that go with the binaries' versions, taken from the modules' own folders: Volcano's
// CRDs and webhook configurations, KWOK's stages.

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	assetsFolder  = "assets-4" // raise the number when other manifests are collected below
	crdFolder     = "crds"
	webhookFile   = "webhooks.yaml"
	admissionFile = "volcano-admission.conf"
	stagesFile    = "stages.yaml"
)

// VolcanoNamespace is where Volcano would run in a real cluster; its webhooks leave it alone.
const VolcanoNamespace = "volcano-system"

// stages are KWOK's lives of nodes and pods. Its pod-complete is left out: it ends every pod whose
// owner's kind is Job, and Volcano's is. So is its pod-delete: a podEnder ends pods.
var stages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
	"pod/fast/pod-ready.yaml",
}

// prepareAssets fills the assets folder beside it and renames, so that a folder that exists is whole.
func prepareAssets(ctx context.Context, modules string, built Binaries, progress io.Writer) error {
	if _, err := os.Stat(built.Assets); err == nil {
		return nil
	}
	fmt.Fprintln(progress, "cluster: collecting manifests")
	partial := built.Assets + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clearing %s: %w", partial, err)
	}
	if err := os.MkdirAll(filepath.Join(partial, crdFolder), 0o755); err != nil {
		return fmt.Errorf("making the assets folder: %w", err)
	}
	if err := volcanoAssets(ctx, modules, partial); err != nil {
		return fmt.Errorf("collecting Volcano's manifests: %w", err)
	}
	if err := kwokAssets(ctx, modules, partial); err != nil {
		return fmt.Errorf("collecting KWOK's stages: %w", err)
	}
	return os.Rename(partial, built.Assets)
}

func volcanoAssets(ctx context.Context, modules, to string) error {
	source, err := goCommand(ctx, modules, "list", "-m", "-f", "{{.Dir}}", volcano)
	if err != nil {
		return err
	}
	// Without jobflow's CRDs the controller-manager never gets past its informers.
	for _, group := range []string{"volcano", "jobflow"} {
		if err := copyFiles(filepath.Join(source, "config", "crd", group, "bases"), filepath.Join(to, crdFolder)); err != nil {
			return err
		}
	}
	chart := filepath.Join(source, "installer", "helm", "chart", "volcano")
	rendered, err := os.ReadFile(filepath.Join(source, "installer", "volcano-development.yaml"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, webhookFile), webhooksOf(rendered), 0o644); err != nil {
		return err
	}
	admission, err := os.ReadFile(filepath.Join(chart, "config", admissionFile))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, admissionFile), admission, 0o644)
}

// webhooksOf are the webhook configurations of the manifest that Volcano renders from its chart. Each document says which template it is of.
func webhooksOf(manifest []byte) []byte {
	var found [][]byte
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		if bytes.HasPrefix(document, []byte("# Source: volcano/templates/webhooks.yaml\n")) {
			found = append(found, document)
		}
	}
	return bytes.Join(found, []byte("\n---\n"))
}

func kwokAssets(ctx context.Context, modules, to string) error {
	source, err := goCommand(ctx, filepath.Join(modules, "kwok"), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, stage := range stages {
		content, err := os.ReadFile(filepath.Join(source, "kustomize", "stage", stage))
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s\n", content)
	}
	return os.WriteFile(filepath.Join(to, stagesFile), all.Bytes(), 0o644)
}

func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
