package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
	"github.com/lockstep-dev/lockstep/test/check"
)

// server answers as an API server does, with these objects by their paths, and notes what it was asked.
type server struct {
	objects map[string]any // texts, too, such as logs
	mu      sync.Mutex
	asked   []string
	// written are the changes that were sent: method, address and body. They are answered with the object, and not kept.
	written []string
	// now is the clock of the server.
	now time.Time
	// recording has what objects lack; nil for nothing.
	recording *recording
}

// serve starts a server that knows these API groups, and returns the flag with its address.
func (s *server) serve(t *testing.T, groups ...metav1.APIResourceList) string {
	t.Helper()
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, g := range groups {
		name, version, isGroup := strings.Cut(g.GroupVersion, "/")
		if isGroup {
			v := metav1.GroupVersionForDiscovery{GroupVersion: g.GroupVersion, Version: version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			s.objects["/apis/"+g.GroupVersion] = g
		} else {
			s.objects["/api/"+g.GroupVersion] = g
		}
	}
	s.objects["/apis"] = list
	s.objects["/api"] = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.String())
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			s.written = append(s.written, r.Method+" "+r.URL.String()+" "+string(body))
		}
		object, ok := s.objects[r.URL.Path]
		if !ok && s.recording != nil {
			object, ok = s.recording.answer(r.URL)
		}
		status, failed := object.(metav1.Status)
		switch {
		case !ok:
			object, status.Code = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}, http.StatusNotFound
		case !failed:
			status.Code = http.StatusOK
		}
		w.Header().Set("Date", s.now.UTC().Format(http.TimeFormat))
		if text, ok := object.(string); ok {
			_, _ = io.WriteString(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(api.Close)
	return "--server=" + api.URL
}

func resources(groupVersion string, kinds ...string) metav1.APIResourceList {
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
	for _, kind := range kinds {
		plural, singular := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(groupVersion, kind))
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: plural.Resource, SingularName: singular.Resource, Kind: kind, Namespaced: kind == "TrainingJob" || kind == "Pod", Verbs: metav1.Verbs{"get", "list"},
		})
	}
	return out
}

var (
	core    = resources("v1", "Namespace", "Node", "Pod")
	product = resources("lockstep.dev/v1alpha1", "TrainingJob", "NodeHealth", "HealthPolicy")
)

const theJobs = "/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs"

func refusal(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

// Every verb that reads a cluster says what to do where that cannot be read.
func TestErrorsOfAClusterSayWhatToDo(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, tc := range map[string]struct {
		groups []metav1.APIResourceList
		answer any
		want   string
	}{
		"not installed": {[]metav1.APIResourceList{core}, nil,
			"Lockstep is not installed in this cluster: the API server does not serve lockstep.dev/TrainingJob. `kubectl lockstep check` shows what is missing, and what to do"},
		"no such job": {[]metav1.APIResourceList{core, product}, refusal(404, metav1.StatusReasonNotFound, `trainingjobs.lockstep.dev "llama" not found`),
			`trainingjobs.lockstep.dev "llama" not found in namespace default: ` + "`kubectl get trainingjobs -A` lists those of all namespaces"},
		"no right": {[]metav1.APIResourceList{core, product}, refusal(403, metav1.StatusReasonForbidden, `trainingjobs.lockstep.dev "llama" is forbidden: User "jane" may not`),
			`trainingjobs.lockstep.dev "llama" is forbidden: User "jane" may not. The ClusterRole lockstep-explain has all rights that this verb needs: ask an administrator to bind it to you`},
		"nobody": {[]metav1.APIResourceList{core, product}, refusal(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
			"you must be logged in to the server: it does not accept the credentials. Log in again, or give another --context, --user or --token"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{objects: map[string]any{theJobs + "/llama": tc.answer}}
			address := s.serve(t, tc.groups...)
			for _, verb := range []string{"timeline", "why", "map", "describe", "top"} {
				_, err := lockstep(verb, "llama", address)
				if err == nil || err.Error() != tc.want {
					t.Errorf("%s: got  %v\nwant %s", verb, err, tc.want)
				}
			}
		})
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for _, verb := range [][]string{
		{"timeline", "llama"}, {"why", "llama"}, {"describe", "llama"}, {"top"}, {"top", "nodes"}, {"map"}, {"check"}, {"list"}, {"nodes"}, {"logs", "llama"},
		{"suspend", "llama"}, {"resume", "llama"}, {"ack", "node", "gpu-1"}, {"ack", "breaker"}, {"submit", "llama", "--image=trainer"},
	} {
		for server, want := range map[string]string{
			"http://127.0.0.1:1":  "unable to connect to the server: dial tcp 127.0.0.1:1: connect: connection refused",
			"http://nowhere.test": "unable to connect to the server: dial tcp: lookup nowhere.test",
		} {
			_, err := lockstep(append(verb, "--server", server)...)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", verb, err, want)
			}
		}
	}
}

// Without a kubeconfig the server is that of kubectl's default, which the user has not chosen.
func TestWithoutAKubeconfig(t *testing.T) {
	for files, hosts := range map[string]map[string]bool{
		"":                    {"localhost:8080": true, "10.0.0.1:6443": false},
		"/nowhere/kubeconfig": {"localhost:8080": true},
	} {
		t.Setenv("KUBECONFIG", files)
		want := "No kubeconfig names a server (KUBECONFIG=" + files + "): set KUBECONFIG to a file that does, or give --kubeconfig or --server"
		for host, hint := range hosts {
			err := explain(&url.Error{Op: "Get", URL: "http://" + host + "/api", Err: syscall.ECONNREFUSED}, roleExplain)
			check.Equal(t, host, hint, strings.HasSuffix(err.Error(), want))
		}
	}
}

func TestShellsCompleteNames(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	list := metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}
	named := func(names ...string) metav1.PartialObjectMetadataList {
		out := metav1.PartialObjectMetadataList{TypeMeta: list}
		for _, name := range names {
			out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return out
	}
	s := &server{objects: map[string]any{
		"/apis/lockstep.dev/v1alpha1/nodehealths":       named("gpu-1", "gpu-2", "cpu-1"),
		"/apis/topology.volcano.sh/v1alpha1/hypernodes": named("rack-0", "rack-1"),
		theJobs:              named("llama", "llava", "mamba"),
		"/api/v1/namespaces": named("default", "research"),
		theJobs + "/llama": v1alpha1.TrainingJob{
			TypeMeta: metav1.TypeMeta{Kind: "TrainingJob", APIVersion: "lockstep.dev/v1alpha1"},
			Spec: v1alpha1.TrainingJobSpec{Tasks: []v1alpha1.Task{{Name: "worker", Replicas: 12, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "train"}, {Name: "sidecar"}}},
			}}}},
		},
	}}
	address := s.serve(t, core, product, resources("topology.volcano.sh/v1alpha1", "HyperNode"))
	var ranks []string
	for i := range 12 {
		ranks = append(ranks, fmt.Sprint("worker-", i))
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"jobs":             {[]string{"why", ""}, []string{"llama", "llava", "mamba"}},
		"more jobs":        {[]string{"timeline", "llama", ""}, []string{"llava", "mamba"}},
		"jobs to tell":     {[]string{"describe", "llama", ""}, []string{"llava", "mamba"}},
		"a job to watch":   {[]string{"top", ""}, []string{"nodes", "llama", "llava", "mamba"}},
		"one job only":     {[]string{"map", "llama", ""}, nil},
		"ranks":            {[]string{"why", "llama", ""}, ranks},
		"one rank only":    {[]string{"why", "llama", "worker-0", ""}, nil},
		"HyperNodes":       {[]string{"nodes", ""}, []string{"rack-0", "rack-1"}},
		"ranks of no job":  {[]string{"why", "nobody", ""}, nil},
		"no file of check": {[]string{"check", ""}, nil},
		"namespaces":       {[]string{"map", "-n", ""}, []string{"default", "research"}},
		"nodes to ack":     {[]string{"ack", "node", "gpu-1", ""}, []string{"gpu-2", "cpu-1"}},
		"containers":       {[]string{"logs", "llama", "-c", ""}, []string{"sidecar", "train"}},
		"ranks to log":     {[]string{"logs", "llama", ""}, ranks},
		"ranks to restart": {[]string{"restart", "llama", "worker-0", ""}, ranks[1:]},
		"states":           {[]string{"list", "--state", ""}, top.States},
		"frameworks":       {[]string{"submit", "--framework", ""}, []string{"none", "pytorch", "mpi"}},
		"jobs to suspend":  {[]string{"suspend", "llama", ""}, []string{"llava", "mamba"}},
		"dry runs":         {[]string{"resume", "--dry-run", ""}, []string{"none", "client", "server"}},
		"formats":          {[]string{"check", "-o", ""}, []string{"json", "yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := lockstep(append([]string{"__complete", tc.args[0], address}, tc.args[1:]...)...)
			check.Equal(t, "error", nil, err)
			words, _, _ := strings.Cut(out, ":4\n") // :4 is "no files"
			check.Equal(t, "words", strings.Join(tc.want, "\n"), strings.TrimSpace(words))
		})
	}
}
