// From an alert to the right pod moved: a real Alertmanager, with the configuration that
// health/alerts/README.md shows, calls the manager over TLS with a service account's token.

package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

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

// alertmanager is one that runs, and the service account whose token it sends.
type alertmanager struct {
	url     string
	token   string // file
	account *corev1.ServiceAccount
}

var snippet = regexp.MustCompile("(?s)```yaml\n(   route:.*?)```")

// alertmanagerConfig is that of the docs, where only the places are this machine's.
func alertmanagerConfig(t *testing.T, token string) string {
	t.Helper()
	page, err := os.ReadFile("../../health/alerts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := snippet.FindSubmatch(page)
	if found == nil {
		t.Fatal("health/alerts/README.md shows no configuration of Alertmanager")
	}
	config := string(found[1])
	for from, to := range map[string]string{
		"https://lockstep-alerts.lockstep-system.svc/alertmanager": receiverURL,
		"/var/run/secrets/kubernetes.io/serviceaccount/token":      token,
		"/etc/alertmanager/lockstep/ca.crt":                        receiverCA,
		"group_interval: 15s":                                      "group_interval: 1s", // or the test takes a minute
	} {
		if !strings.Contains(config, from) {
			t.Fatalf("the configuration of health/alerts/README.md does not have %q", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	return config
}

// startAlertmanager runs one for the test.
func (s *scenario) startAlertmanager() *alertmanager {
	s.t.Helper()
	dir := s.t.TempDir()
	binaries, err := cluster.Build(s.ctx, io.Discard)
	s.must(err, "find Alertmanager")
	port, err := testCluster.Port()
	s.must(err, "find a port")
	am := &alertmanager{url: fmt.Sprintf("http://127.0.0.1:%d", port), token: filepath.Join(dir, "token")}
	am.account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "alertmanager-" + s.pool.Name}}
	s.must(testCluster.Client().Create(s.ctx, am.account), "create the service account")
	s.writeToken(am, s.tokenOf(am.account))
	config := filepath.Join(dir, "alertmanager.yml")
	s.must(os.WriteFile(config, []byte(alertmanagerConfig(s.t, am.token)), 0o600), "write the configuration")

	name := "alertmanager-" + s.pool.Name
	process, err := testCluster.Run(s.ctx, cluster.Command{
		Name: name, Path: binaries.Path(cluster.Alertmanager), Dir: dir,
		Args: []string{
			"--config.file=" + config, "--storage.path=" + filepath.Join(dir, "data"), "--cluster.listen-address=",
			"--web.listen-address=" + strings.TrimPrefix(am.url, "http://"),
		},
		Ready: func(ctxT) error { return get(am.url + "/-/ready") },
	})
	s.must(err, "run Alertmanager")
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("Alertmanager's log:\n%s", testCluster.Log(name))
		}
		_ = process.Stop()
	})
	return am
}

func get(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

func (s *scenario) tokenOf(account *corev1.ServiceAccount) string {
	s.t.Helper()
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	s.must(testCluster.Client().SubResource("token").Create(s.ctx, account, request), "ask for a token")
	return request.Status.Token
}

func (s *scenario) writeToken(am *alertmanager, token string) {
	s.t.Helper()
	s.must(os.WriteFile(am.token, []byte(token), 0o600), "write the token")
}

// grant binds the role that the product ships to a sender.
func (s *scenario) grant(account *corev1.ServiceAccount) {
	s.t.Helper()
	raw, err := os.ReadFile("../../config/alerts/sender.yaml")
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

// tell posts an alert as Prometheus does; it is over where it has ended.
func (s *scenario) tell(am *alertmanager, labels map[string]string, began time.Time, ended ...time.Time) {
	s.t.Helper()
	alert := map[string]any{"labels": labels, "startsAt": began, "annotations": map[string]string{"description": "XID 79 on this GPU"}}
	if len(ended) > 0 {
		alert["endsAt"] = ended[0]
	}
	body, err := json.Marshal([]any{alert})
	s.must(err, "encode the alert")
	response, err := http.Post(am.url+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	s.must(err, "post the alert")
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("Alertmanager did not take the alert: %s", response.Status)
	}
}

// deliveries are how often Alertmanager tried the webhook, and how often in vain.
func (s *scenario) deliveries(am *alertmanager) (tried, failed int) {
	s.t.Helper()
	response, err := http.Get(am.url + "/metrics")
	s.must(err, "read Alertmanager's metrics")
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.must(err, "read Alertmanager's metrics")
	sum := func(name string) (total int) {
		for _, m := range regexp.MustCompile(`(?m)^`+name+`\{.*integration="webhook".*\} (\d+)$`).FindAllSubmatch(text, -1) {
			var n int
			_, err := fmt.Sscan(string(m[1]), &n)
			s.must(err, name)
			total += n
		}
		return total
	}
	return sum("alertmanager_notification_requests_total"), sum("alertmanager_notification_requests_failed_total")
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
		"Hostname": node, "UUID": gpuOfVictim, "gpu": "0",
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
		return len(h.Reports) == 1 && h.Reports[0].Source == "alertmanager" && h.Reports[0].Entity == "gpu/"+gpuOfVictim &&
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

// postAlerts calls the receiver as Alertmanager would.
func (s *scenario) postAlerts(token, body string) (int, string) {
	s.t.Helper()
	ca, err := os.ReadFile(receiverCA)
	s.must(err, "read the authority")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, receiverURL, strings.NewReader(body))
	s.must(err, "make the request")
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := caller.Do(request)
	s.must(err, "call the receiver")
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	s.must(err, "read the answer")
	return response.StatusCode, string(answer)
}
