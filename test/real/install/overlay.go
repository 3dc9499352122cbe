// The site's own folder of Kustomize.

package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
		sample, library = "dcgm-node-library", fmt.Sprintf(`
- target: {kind: DaemonSet, name: lockstep-health-agent}
  patch: |
    kind: DaemonSet
    apiVersion: apps/v1
    metadata: {name: lockstep-health-agent}
    spec: {template: {spec: {volumes: [{name: dcgm-library, hostPath: {path: %s}}]}}}`, libraryFolder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base, err := filepath.Rel(folder, filepath.Join(checkout, "config", "samples", sample))
	if err != nil {
		return err
	}
	// After the name of the node, which the variable has in it.
	return os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, `resources:
- %s
patches:
- target: {kind: DaemonSet, name: lockstep-health-agent}
  patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --interval=1s
    - op: add
      path: /spec/template/spec/containers/0/env/-
      value: {name: %s, value: %s/$(NODE_NAME)}
    - op: add
      path: /spec/template/spec/volumes/-
      value: {name: state, hostPath: {path: %s}}
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts/-
      value: {name: state, mountPath: %s, readOnly: true}
%s
`, base, dcgmsim.StateEnv, real.DCGMFolder, real.DCGMFolder, real.DCGMFolder, strings.TrimPrefix(library, "\n")), 0o644)
}
