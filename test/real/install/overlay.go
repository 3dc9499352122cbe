// The site's own folder of Kustomize.

package install

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/test/dcgmsim"
	"github.com/lockstep-dev/lockstep/test/real"
)

// overlay is the folder: over the sample of the page, with what plays DCGM where that says a node has it.
func (s *site) overlay() string { return filepath.Join(s.dir, "overlay") }

func (s *site) writeOverlay() error {
	if err := os.MkdirAll(s.overlay(), 0o755); err != nil {
		return err
	}
	base, err := filepath.Rel(s.overlay(), filepath.Join(s.root, "config", "samples", "dcgm-node-library"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.overlay(), "kustomization.yaml"), fmt.Appendf(nil, `resources:
- %s
patches:
- target: {kind: DaemonSet, name: lockstep-health-agent}
  patch: |
    kind: DaemonSet
    apiVersion: apps/v1
    metadata: {namespace: lockstep-health, name: lockstep-health-agent}
    spec:
      template:
        spec:
          containers:
          - name: agent
            env:
            - {name: %s, value: %s/$(NODE_NAME)}
            volumeMounts:
            - {name: state, mountPath: %s, readOnly: true}
          volumes:
          - {name: state, hostPath: {path: %s}}
          - {name: dcgm-library, hostPath: {path: %s}}
`, base, dcgmsim.StateEnv, real.DCGMFolder, real.DCGMFolder, real.DCGMFolder, libraryFolder), 0o644)
}
