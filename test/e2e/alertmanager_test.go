// A real Alertmanager, with the configuration that health/alerts/README.md shows.

package e2e

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

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
	binaries, err := cluster.Build(s.ctx, io.Discard, cluster.Alertmanager)
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
