package cluster
import ("testing";"time";"context")
func TestScale(t *testing.T){
 c,err:=Start(t.Context(),Options{NodeMonitorGracePeriod:40*time.Second, AuditLog:"/tmp/audit.log"}); if err!=nil{t.Fatal(err)}
 defer c.Stop()
 tp:=GB300NVL72("nvl",56); tp.Tiers=[]int{8,7}
 b:=time.Now(); if err:=c.AddTopology(t.Context(),tp);err!=nil{t.Fatal(err)}; t.Log("add",time.Since(b))
 b=time.Now(); if _,err:=c.Map(t.Context());err!=nil{t.Fatal(err)}; t.Log("map",time.Since(b))
 b=time.Now(); if err:=c.StopHeartbeat(t.Context(),tp.RackNodes(3)...);err!=nil{t.Fatal(err)}; t.Log("stop heartbeat of 18",time.Since(b))
 b=time.Now(); if err:=c.FillRack(t.Context(),tp.Rack(5),0);err!=nil{t.Fatal(err)}; t.Log("fill",time.Since(b))
 b=time.Now(); if err:=c.RemoveTopology(context.Background(),"nvl");err!=nil{t.Fatal(err)}; t.Log("remove",time.Since(b))
}
