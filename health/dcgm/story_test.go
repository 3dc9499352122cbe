// From a host engine to the reports of a node: the default table over what is read.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

func TestReportsOfANode(t *testing.T) {
	table := health.Default()
	r := aRig(t, at(table.Watched()...))
	r.now = time.Now() // the engine gives XIDs the time of the clock
	booted := r.now.Add(-time.Hour)
	var node health.State
	poll := func(polls int) (reports []string) {
		for range polls {
			s := r.after(10 * time.Second)
			s.BootID, s.BootTime = "boot", booted
			node = health.Evaluate(node, s, table)
		}
		for _, report := range health.Reports(node) {
			reports = append(reports, report.Entity+" "+report.Signal+" "+string(report.State))
		}
		slices.Sort(reports)
		return reports
	}
	r.equal("well", []string(nil), poll(3))
	for _, note := range r.reader.Notes() {
		t.Log(note)
	}

	r.engine.SetLink(0, 1, dcgmsim.LinkDown)
	down := "nvlink/GPU-a/1 NVLinkDown Failed"
	r.equal("a link is down", []string{down}, poll(2))
	r.engine.XID(1, 79, time.Now())
	xid := "gpu/GPU-b XID79 Failed"
	r.equal("and a GPU fell off the bus", []string{xid, down}, poll(1))

	r.engine.EngineDown()
	r.equal("nothing is known", []string{xid, down}, poll(4))
	r.equal("which is said", "Unknown", string(health.Source(node, "").State))
	r.engine.EngineUp()
	r.engine.Lose(1)
	r.now = r.now.Add(time.Minute)
	r.equal("the engine is back, and lists one GPU less", []string{"gpu/GPU-b GPULost Failed", xid, down}, poll(4))
	r.equal("which is known", "Healthy", string(health.Source(node, "").State))
}
