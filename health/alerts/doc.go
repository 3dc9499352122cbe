// Package alerts receives what Alertmanager sends and writes it into the NodeHealth of the
// nodes concerned, as the source alertmanager: firing sets an entry, resolved clears it.
package alerts
