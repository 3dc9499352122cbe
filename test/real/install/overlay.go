// The site's own folder of Kustomize.

package install

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/test/dcgmsim"
	"github.com/lockstep-dev/lockstep/test/real"
)

// overlay is the folder for a checkout.
func (s *site) overlay(checkout string) string {
	return filepath.Join(s.dir, "overlay-"+filepath.Base(checkout))
}

// writeOverlay writes the folder, over a sample of a checkout, with what plays DCGM. The previous version has no sample with a node's library.
func (s *site) writeOverlay(checkout string) error {
	folder, sample, library := s.overlay(checkout), "dcgm-unix-socket", ""
	if checkout == s.root {
		sample, library = "dcgm-node-library", fmt.Sprintf("- {name: dcgm-library, hostPath: {path: %s}}", libraryFolder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base, err := filepath.Rel(folder, filepath.Join(checkout, "config", "samples", sample))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, `resources:
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
          %s
`, base, dcgmsim.StateEnv, real.DCGMFolder, real.DCGMFolder, real.DCGMFolder, library), 0o644)
}
