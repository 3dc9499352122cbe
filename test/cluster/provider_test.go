// The provider, as e2e-framework drives it, and what only a cluster of one's own can show.

package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestTheProvidersClusterComesAndGoes(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	p := NewProvider(Options{AuditLog: audit})
	kubeconfig, err := p.SetDefaults().WithName("provided").Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := p.Cluster()
	pid := c.Component(Etcd).PID()
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig should be private: %v, %v", info, err)
	}
	if err := c.Occupy(t.Context(), 1, "nowhere"); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(audit)
	if err != nil || !bytes.Contains(log, []byte(`"objectRef":{"resource":"pods","namespace":"default"`)) || bytes.Contains(log, []byte(`"verb":"list"`)) {
		t.Errorf("the audit log should hold the pod's creation and no reads: %v", err)
	}
	logs := t.TempDir()
	if err := p.ExportLogs(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(logs, VolcanoScheduler+".log")); err != nil {
		t.Error(err)
	}
	if err := p.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) || !gone(pid) {
		t.Errorf("something is left: %v", err)
	}
}
