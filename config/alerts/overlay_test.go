// The overlay adds the receiver to what config/default installs, and takes nothing away.
package alerts

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestOverlay(t *testing.T) {
	binaries, err := cluster.Build(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	render := func(dir string) string {
		out, err := exec.CommandContext(t.Context(), binaries.Path("kubectl"), "kustomize", dir).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, out)
		}
		return string(out)
	}
	with := render(".")
	for _, want := range []string{
		"- --alerts-bind-address=:9443", "- --alerts-cert-dir=/etc/lockstep/alerts", "mountPath: /etc/lockstep/alerts",
		"secretName: lockstep-alerts-tls", "name: lockstep-alerts\n", "name: lockstep-alert-sender", "- /alertmanager",
	} {
		if !strings.Contains(with, want) {
			t.Errorf("the overlay lacks %q", want)
		}
	}
	for line := range strings.Lines(render("../default")) {
		if !strings.Contains(with, line) {
			t.Errorf("the overlay takes away %q", line)
		}
	}
}
