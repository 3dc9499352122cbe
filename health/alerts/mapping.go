// What an alert's labels say: which node, which entity, which signal, how bad, whose pod.

package alerts

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Labels that a rule may set to say what the others cannot.
const (
	// LabelSeverity is how bad it is: failed, or degraded. Default: degraded.
	LabelSeverity = "lockstep_severity"
	// LabelSignal is the name of the signal. Default: the alert's name.
	LabelSignal = "lockstep_signal"
	// LabelEntity is what is ill, as NodeHealth names it. Default: what the labels of a GPU or
	// a link say, else the node.
	LabelEntity = "lockstep_entity"
)

// nodeLabels may name the node: the first that names one that exists does. dcgm-exporter
// writes hostname, and up to 4.5.3-4.8.2 Hostname; node is what relabelling makes of it.
var nodeLabels = []string{"node", "hostname", "Hostname", "kubernetes_node"}

// The limits of NodeHealth's fields, in letters.
const maxSignal, maxEntity, maxMessage = 63, 253, 1024

// Change is what one alert says.
type Change struct {
	// Nodes are the names that the alert gives; the first that exists is meant.
	Nodes []string
	// Report is the entry; its pods are filled in by the receiver.
	Report v1alpha1.HealthReport
	// Ends is when a resolved alert ended; nil while it fires.
	Ends *metav1.Time
	// Pod is the one that the alert names, as namespace/name; empty without one.
	Pod string
	// Holder reports whether the label can mean nothing but the pod that holds the entity. A label
	// pod may also be the exporter's own.
	Holder bool
}

// Map reads an alert's labels. The error names the label and what to do.
func Map(a Alert) (Change, error) {
	c := Change{Report: v1alpha1.HealthReport{Source: Source, Since: seconds(a.StartsAt), Message: message(a)}}
	for _, label := range nodeLabels {
		if name := a.Labels[label]; name != "" {
			c.Nodes = append(c.Nodes, name)
		}
	}
	if len(c.Nodes) == 0 {
		return Change{}, fmt.Errorf("no node is named: one of the labels %s has to be the name of the node", strings.Join(nodeLabels, ", "))
	}
	var err error
	if c.Report.State, err = state(a.Labels[LabelSeverity]); err != nil {
		return Change{}, err
	}
	c.Report.Entity, c.Report.Signal = entity(a.Labels), cmp.Or(a.Labels[LabelSignal], a.Labels["alertname"])
	if err := bounded("the signal, label "+LabelSignal+" or alertname", c.Report.Signal, maxSignal); err != nil {
		return Change{}, err
	}
	if err := bounded("the entity, by the labels of the GPU or "+LabelEntity, c.Report.Entity, maxEntity); err != nil {
		return Change{}, err
	}
	if c.Pod, c.Holder, err = podOf(a.Labels); err != nil {
		return Change{}, err
	}
	if a.Status == resolved {
		ends := seconds(a.EndsAt)
		c.Ends = &ends
	}
	return c, nil
}

func state(severity string) (v1alpha1.HealthState, error) {
	switch severity {
	case "failed":
		return v1alpha1.HealthStateFailed, nil
	case "degraded", "":
		return v1alpha1.HealthStateDegraded, nil
	default:
		return "", fmt.Errorf("the label %s is %q: it has to be failed or degraded, or left out, which means degraded", LabelSeverity, severity)
	}
}

// entity is what is ill, as NodeHealth names it. The index of a GPU is no name of it, for it
// changes with a boot, and is used only where there is no UUID.
func entity(labels map[string]string) string {
	uuid, link := cmp.Or(labels["UUID"], labels["gpu_uuid"]), labels["nvlink"]
	switch {
	case labels[LabelEntity] != "":
		return labels[LabelEntity]
	case uuid != "" && link != "":
		return "nvlink/" + uuid + "/" + link
	case uuid != "":
		return "gpu/" + uuid
	case labels["nvswitch"] != "":
		return "switch/" + labels["nvswitch"]
	case labels["gpu"] != "":
		return "gpu/index-" + labels["gpu"]
	default:
		return "node"
	}
}

// podKey is a pod's name as namespace/name, for a client.
func podKey(pod string) types.NamespacedName {
	namespace, name, _ := strings.Cut(pod, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// podOf is the pod that an alert names. Prometheus renames a label pod of the exporter's to
// exported_pod, unless honorLabels is set, and puts the exporter's own pod in its place.
func podOf(labels map[string]string) (name string, holder bool, err error) {
	for _, prefix := range []string{"exported_", ""} {
		namespace, name := labels[prefix+"namespace"], labels[prefix+"pod"]
		if namespace == "" || name == "" {
			continue
		}
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return "", false, fmt.Errorf("the labels %[1]snamespace and %[1]spod: %q and %q are no pod's name", prefix, namespace, name)
		}
		return namespace + "/" + name, prefix != "", nil
	}
	return "", false, nil
}

func bounded(what, value string, limit int) error {
	switch length := utf8.RuneCountInString(value); {
	case length == 0:
		return fmt.Errorf("%s, is missing", what)
	case length > limit:
		return fmt.Errorf("%s, has %d letters, at most %d", what, length, limit)
	case value != clean(value):
		return fmt.Errorf("%s, is %q: a letter of it cannot be printed", what, value)
	}
	return nil
}

func message(a Alert) string {
	text := cmp.Or(a.Annotations["description"], a.Annotations["summary"], a.Annotations["message"], a.Labels["alertname"])
	text = clean(text)
	if letters := []rune(text); len(letters) > maxMessage {
		return string(letters[:maxMessage-1]) + "…"
	}
	return text
}

// clean makes blanks of what cannot be printed, which the API server would not take.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// seconds is a time as the API keeps it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
