// Package installation installs Lockstep and Volcano as their users do, and runs kubectl lockstep check against that: it finds
// nothing there, and each mistake that is made on purpose. The cluster is its own, since many of these concern everybody.
//
// Deployments and DaemonSets have their pods, which KWOK plays. The manager and Volcano that work are processes of the test cluster.
package installation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// awaitTimeout bounds a wait for something that takes seconds.
const awaitTimeout = 2 * time.Minute

var (
	testCluster *cluster.Cluster
	manager     *cluster.Process
	plugin      string
	probes      string // address of the manager's probes
	pool        = cluster.Topology{
		Name: "gpu", Racks: 2, NodesPerRack: 2, GPUsPerNode: 8, Tiers: []int{2}, Labels: map[string]string{"nvidia.com/gpu.present": "true"},
	}
)

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lockstep-installation-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "installation:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := start(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, "installation: start the cluster:", err)
		return 1
	}
	code := m.Run()
	if err := testCluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "installation: stop the cluster:", err)
		return 1
	}
	return code
}

func start(ctx context.Context, dir string) error {
	scheme := cluster.NewScheme()
	err := errors.Join(v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	testCluster, err = cluster.Start(ctx, cluster.Options{
		Name: "installation", Scheme: scheme, Progress: os.Stderr,
		NodeMonitorGracePeriod: 2 * time.Minute, // a late heartbeat takes the readiness of its node's pods for good
	})
	if err != nil {
		return err
	}
	if err := testCluster.AddTopology(ctx, pool); err != nil {
		return err
	}
	plugin = filepath.Join(dir, "kubectl-lockstep")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", plugin, "./cmd/kubectl-lockstep")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	if err := startManager(ctx, dir); err != nil {
		return err
	}
	if err := testCluster.InstallCRDs("../../config/crd"); err != nil {
		return err
	}
	return errors.Join(install(ctx), startReports(ctx))
}

// startManager runs the manager as its Deployment would: it leads by a lease in its namespace. It returns once the manager
// waits for Lockstep's CRDs, which are installed after it.
func startManager(ctx context.Context, dir string) error {
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, testCluster)
	if err != nil {
		return err
	}
	if probes, err = freeAddress(); err != nil {
		return err
	}
	manager, err = testCluster.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=" + probes, "--kubeconfig=" + kubeconfig,
		"--leader-elect", "--leader-election-namespace=" + operator.Namespace,
	}})
	if err != nil {
		return err
	}
	return awaitWaiting(ctx)
}

func freeAddress() (string, error) {
	port, err := testCluster.Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// awaitWaiting returns once the manager is alive, not ready, and says which CRDs are missing.
func awaitWaiting(ctx context.Context) error {
	const says = `"missing":"TrainingJob.lockstep.dev, NodeHealth.lockstep.dev, HealthPolicy.lockstep.dev"`
	err := wait.PollUntilContextTimeout(ctx, pollEvery, awaitTimeout, true, func(ctx context.Context) (bool, error) {
		alive, _ := probe(ctx, "healthz") // refused until it listens
		ready, _ := probe(ctx, "readyz")
		return alive == http.StatusOK && ready == http.StatusInternalServerError && strings.Contains(testCluster.Log(operator.Name), says), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager waits for its CRDs: %w\n%s", err, testCluster.Log(operator.Name))
	}
	return nil
}

// probe asks the manager for its health, and returns the status of the answer.
func probe(ctx context.Context, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/"+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// install applies what make install does, and Volcano's chart but for the CRDs and webhooks, which the test cluster has.
func install(ctx context.Context) error {
	objects, err := cluster.Kustomize(ctx, "../../config/default")
	if err != nil {
		return err
	}
	values, err := json.Marshal(map[string]any{"custom": map[string]any{"scheduler_config_override": cluster.SchedulerConfig}})
	if err != nil {
		return err
	}
	volcano, err := cluster.VolcanoChart(ctx, string(values), "scheduler.yaml", "controllers.yaml", "admission.yaml")
	if err != nil {
		return err
	}
	for _, o := range append(objects, volcano...) {
		if err := apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// apply applies an object. Volcano's is the only scheduler here, so it places the pods of Deployments and DaemonSets, too.
func apply(ctx context.Context, o *unstructured.Unstructured) error {
	if kind := o.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
		if err := unstructured.SetNestedField(o.Object, "volcano", "spec", "template", "spec", "schedulerName"); err != nil {
			return err
		}
	}
	if err := testCluster.Client().Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// startReports creates what the health agents of all nodes write to, and says what they would.
func startReports(ctx context.Context) error {
	for _, node := range pool.NodeNames() {
		if err := testCluster.Client().Create(ctx, &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
			return err
		}
	}
	return report(ctx)
}

// report says of every node what its health agent would.
func report(ctx context.Context) error {
	for _, node := range pool.NodeNames() {
		if err := say(ctx, node, v1alpha1.HealthSource{State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.Now())}); err != nil {
			return err
		}
	}
	return nil
}

// say is what the health agent of a node says of itself.
func say(ctx context.Context, node string, source v1alpha1.HealthSource) error {
	health := &v1alpha1.NodeHealth{}
	if err := testCluster.Client().Get(ctx, client.ObjectKey{Name: node}, health); err != nil {
		return err
	}
	patch := client.MergeFrom(health.DeepCopy()) // the manager writes its verdict beside it
	source.Name, source.Version = v1alpha1.SourceDCGM, cmp.Or(source.Version, "4.6.0")
	health.Status.Sources = []v1alpha1.HealthSource{source}
	return testCluster.Client().Status().Patch(ctx, health, patch)
}

// run runs kubectl lockstep check, and returns what it prints and its exit code.
func run(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	return runPlugin(ctx, append([]string{"check"}, args...)...)
}

// runPlugin runs any verb.
func runPlugin(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	cmd := exec.CommandContext(ctx, plugin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+testCluster.Kubeconfig())
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err, code = nil, exit.ExitCode()
	}
	return out.String(), complaint.String(), code, err
}

// findings runs the check, and returns its findings.
func findings(ctx context.Context, args ...string) ([]check.Finding, error) {
	stdout, stderr, _, err := run(ctx, append(args, "-o", "json")...)
	if err != nil {
		return nil, err
	}
	report := check.Report{}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		return nil, fmt.Errorf("%w\n%s%s", err, stdout, stderr)
	}
	var out []check.Finding
	for _, c := range report.Checks {
		out = append(out, c.Findings...)
	}
	return out, nil
}

// await waits until the findings are as they should be.
func await(t *testing.T, what string, holds func([]check.Finding) bool, args ...string) {
	t.Helper()
	var last []check.Finding
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, awaitTimeout, true, func(ctx context.Context) (_ bool, err error) {
		last, err = findings(ctx, args...)
		return err == nil && holds(last), err
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; the last findings were %+v", what, err, last)
	}
}
