// Metrics of a registry, as the programs have them.

package promcheck

import (
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// described reads a description, which keeps its name and labels to itself but for its text.
var described = regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)

// AddRegistry adds all metrics that are registered, those without a series among them, with the labels of the target that they are scraped
// from. A description does not tell a histogram from others, so each name that does not end like a counter's has its three series.
func (m Metrics) AddRegistry(registry prometheus.Collector, target ...string) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	for d := range descriptions {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			continue // an invalid description is no metric: Gather says why
		}
		own := Of(target...)
		if parts[2] != "" {
			own = own.with(strings.Split(parts[2], ",")...)
		}
		m[parts[1]] = own
		if !strings.HasSuffix(parts[1], "_total") {
			m[parts[1]+"_bucket"], m[parts[1]+"_sum"], m[parts[1]+"_count"] = own.with("le"), own, own
		}
	}
}
