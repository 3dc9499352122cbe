// What a poll costs.

package health

import (
	"fmt"
	"testing"
)

// BenchmarkEvaluate is a poll of eight GPUs with 18 NVLinks each, four NVSwitches and eight ports,
// in which traffic goes on and nothing is wrong.
func BenchmarkEvaluate(b *testing.B) {
	n := newNode()
	n.Values = map[Entity]map[Field]Value{}
	for g := range 8 {
		gpu := fmt.Sprintf("GPU-%d", g)
		n.plug(Entity{KindGPU, gpu}).plug(Entity{KindNIC, fmt.Sprintf("mlx5_%d/1", g)})
		for l := range 18 {
			n.plug(Entity{KindNVLink, fmt.Sprintf("%s/%d", gpu, l)})
		}
	}
	for s := range 4 {
		n.plug(Entity{KindSwitch, fmt.Sprint(s)})
	}
	n.plug(theOne).polls(10)
	b.ReportAllocs()
	for b.Loop() {
		n.poll()
	}
	if faults := n.faults(); len(faults) > 0 {
		b.Fatal(faults)
	}
}
