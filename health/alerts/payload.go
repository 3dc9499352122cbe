// The payload of Alertmanager's webhook, version 4.

package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// version of the payload, unchanged since Alertmanager 0.6 (notify/webhook/webhook.go).
	version = "4"
	// maxAlerts of one payload: more than any group by node or by alert has, and a bound on what
	// one request may cost.
	maxAlerts = 5000

	firing   = "firing"
	resolved = "resolved"
)

// Payload is what Alertmanager posts about one group of alerts. What is not read is left out.
type Payload struct {
	Version string `json:"version"`
	// TruncatedAlerts is how many Alertmanager left out, by its max_alerts.
	TruncatedAlerts uint64  `json:"truncatedAlerts"`
	Alerts          []Alert `json:"alerts"`
}

// Alert is one alert of a group.
type Alert struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	// EndsAt is zero while the alert fires.
	EndsAt time.Time `json:"endsAt"`
}

// Decode reads a payload, and refuses one that does not say what each alert is. The error
// names the field.
func Decode(body []byte) (Payload, error) {
	var p Payload
	if err := json.Unmarshal(body, &p); err != nil {
		return Payload{}, fmt.Errorf("not a payload of Alertmanager: %w", err)
	}
	if p.Version != version {
		return Payload{}, fmt.Errorf("version: %q is unknown here, only %q is understood: "+
			"send with a webhook_configs receiver of Alertmanager", p.Version, version)
	}
	if len(p.Alerts) == 0 {
		return Payload{}, errors.New("alerts: empty")
	}
	if len(p.Alerts) > maxAlerts {
		return Payload{}, fmt.Errorf("alerts: %d in one payload, at most %d: let group_by of the route name the label of the node", len(p.Alerts), maxAlerts)
	}
	for i := range p.Alerts {
		if err := p.Alerts[i].check(); err != nil {
			return Payload{}, fmt.Errorf("alerts[%d].%w", i, err)
		}
	}
	return p, nil
}

func (a *Alert) check() error {
	switch {
	case a.Status != firing && a.Status != resolved:
		return fmt.Errorf("status: %q is neither %s nor %s", a.Status, firing, resolved)
	case !printable(a.StartsAt):
		return errors.New("startsAt: missing, or out of range")
	case a.Status == resolved && !printable(a.EndsAt):
		return errors.New("endsAt: missing, or out of range, of an alert that is resolved")
	}
	return nil
}

// printable is false for times that the API server could not read back.
func printable(t time.Time) bool {
	return t.Year() > 1970 && t.UTC().Year() > 1970 && t.UTC().Year() < 10000
}
