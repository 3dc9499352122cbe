// From an alert to the right pod moved: a real Alertmanager, with the configuration that
// health/alerts/README.md shows, calls the manager over TLS with a service account's token.

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// gpuOfAlert is the one that the alert of a test is about.
const gpuOfAlert = "GPU-33333333-0000-0000-0000-000000000000"

var (
	receiverURL string
	receiverCA  string
)

// receiverFlags have the manager receive alerts.
func receiverFlags() ([]string, error) {
	port, err := testCluster.Port()
	if err != nil {
		return nil, err
	}
	dir, err := testCluster.CertificateDir()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	receiverURL, receiverCA = "https://"+address+"/alertmanager", filepath.Join(dir, "ca.crt")
	return []string{"--alerts-bind-address=" + address, "--alerts-cert-dir=" + dir}, nil
}

// grant binds the role that the product ships to a sender.
func (s *scenario) grant(account *corev1.ServiceAccount) {
	s.t.Helper()
	raw, err := os.ReadFile("../../config/alerts/receiver/sender.yaml")
	s.must(err, "read the role")
	role := &rbac.ClusterRole{}
	s.must(yaml.UnmarshalStrict(raw, role), "sender.yaml")
	s.must(client.IgnoreAlreadyExists(testCluster.Client().Create(s.ctx, role)), "create the role")
	s.must(testCluster.Client().Create(s.ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}), "bind the role")
}

func TestAlertMovesThePodThatItNames(t *testing.T) {
	s := newScenario(t, "alerts", 1, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(1)
	node := victim.Spec.NodeName
	t.Cleanup(func() { s.forgetHealth(node) })
	am := s.startAlertmanager()
	labels := map[string]string{
		"alertname": "GPUFailed", "lockstep_severity": "failed", "lockstep_signal": "XID79", "severity": "critical",
		"Hostname": node, "UUID": gpuOfAlert, "gpu": "0",
		"exported_namespace": victim.Namespace, "exported_pod": victim.Name, "namespace": "monitoring", "pod": "dcgm-exporter-x",
	}
	began := time.Now().Add(-time.Minute)

	// A token of this cluster that may not send: nothing changes, and Alertmanager goes on trying.
	s.tell(am, labels, began)
	s.awaitAny("Alertmanager is refused", func(ctxT) (bool, error) {
		_, failed := s.deliveries(am)
		return failed > 1, nil
	})
	health := &v1alpha1.NodeHealth{}
	if err := testCluster.Client().Get(s.ctx, client.ObjectKey{Name: node}, health); client.IgnoreNotFound(err) != nil || len(health.Status.Reports) > 0 {
		t.Fatalf("a sender without the right wrote %v (%v)", health.Status.Reports, err)
	}
	s.untouched(before)

	s.grant(am.account)
	s.published(node, "the fault is known", func(h v1alpha1.NodeHealthStatus) bool {
		return len(h.Reports) == 1 && h.Reports[0].Source == "alertmanager" && h.Reports[0].Entity == "gpu/"+gpuOfAlert &&
			h.Reports[0].State == v1alpha1.HealthStateFailed && h.Reports[0].Message == "XID 79 on this GPU"
	})
	s.recovered(1)
	s.untouched(before, victim.Name)
	if inc := s.job.Status.Incidents[0]; inc.Trigger != v1alpha1.HealthFailed || inc.Cause.Signal != "XID79" {
		t.Errorf("trigger %s, signal %s", inc.Trigger, inc.Cause.Signal)
	}
	if s.pod(1).Spec.NodeName == node {
		t.Error("the pod is back on the node of its failed GPU")
	}

	s.tell(am, labels, began, time.Now())
	s.published(node, "the entry is cleared", func(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) == 0 })

	// An acknowledgement clears what no notice will.
	s.tell(am, labels, time.Now())
	s.published(node, "it fires again", func(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) == 1 })
	acknowledge := fmt.Sprintf(`{"spec":{"acknowledgedTime":%q}}`, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	s.must(testCluster.Client().Patch(s.ctx, &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch("application/merge-patch+json", []byte(acknowledge))), "acknowledge")
	s.published(node, "the acknowledged entry is gone", func(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) == 0 })
}

// What is no alert, or comes from nobody, is told why, and changes nothing.
func TestReceiverRefuses(t *testing.T) {
	s := newScenario(t, "refusals", 1, 1)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sender-" + s.pool.Name}}
	s.must(testCluster.Client().Create(s.ctx, account), "create the service account")
	node := s.pool.RackNodes(0)[0]
	body := fmt.Sprintf(`{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"A","node":%q},"startsAt":"2026-01-02T03:04:05Z"}]}`, node)
	for name, c := range map[string]struct {
		token, body string
		code        int
		says        string
	}{
		"no token":                       {"", body, http.StatusUnauthorized, "no bearer token"},
		"a wrong token":                  {"wrong", body, http.StatusUnauthorized, "does not know the bearer token"},
		"one without the right":          {s.tokenOf(account), body, http.StatusForbidden, "sender-refusals may not post to /alertmanager"},
		"one without the right, no JSON": {s.tokenOf(account), "alerts", http.StatusForbidden, ""},
	} {
		code, answer := s.postAlerts(c.token, c.body)
		if code != c.code || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %s, want %d and %q", name, code, answer, c.code, c.says)
		}
	}
	s.grant(account)
	s.awaitAny("the right is known, and no JSON is refused", func(ctxT) (bool, error) {
		code, answer := s.postAlerts(s.tokenOf(account), "alerts")
		return code == http.StatusBadRequest && strings.Contains(answer, "not a payload of Alertmanager"), nil
	})
	health := &v1alpha1.NodeHealth{}
	if err := testCluster.Client().Get(s.ctx, client.ObjectKey{Name: node}, health); client.IgnoreNotFound(err) != nil || len(health.Status.Reports) > 0 {
		t.Errorf("a refused request wrote %v (%v)", health.Status.Reports, err)
	}
}

// postAlerts calls the receiver as Alertmanager would, which sends again what is answered with 503: nothing is decided then.
func (s *scenario) postAlerts(token, body string) (int, string) {
	s.t.Helper()
	ca, err := os.ReadFile(receiverCA)
	s.must(err, "read the authority")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	code, answer := 0, ""
	s.awaitAny("the receiver answers", func(ctx ctxT) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, receiverURL, strings.NewReader(body))
		if err != nil {
			return false, err
		}
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := caller.Do(request)
		if err != nil {
			return false, nil // another test has killed the manager, and starts it again
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		code, answer = response.StatusCode, string(all)
		if code == http.StatusServiceUnavailable {
			return false, fmt.Errorf("not decided, it is safe to send it again: %s", answer)
		}
		return err == nil, nil
	})
	return code, answer
}
