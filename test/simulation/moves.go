package simulation

// move is one thing that may happen.
type move struct {
	weight int
	do     func(*world)
}

// moves are what may happen, and how often it does. What a healthy cluster does by itself comes often, so
// that trouble meets every stage of a recovery.
var moves = []move{
	{70, toSomeone((*tenant).reconcile)},
	{45, (*world).syncVolcano},
	{45, (*world).schedule},
	{70, (*world).runKubelets},
	{30, (*world).wait},
	{40, toSomeone((*tenant).programsAnswer)},
	{1, (*world).stepClock},
	{2, toSomeone((*tenant).changeLeader)},
	{4, toSomeone((*tenant).formerLeaderActs)},

	{5, toSomeone((*tenant).crashRank)},
	{2, toSomeone((*tenant).crashLoop)},
	{3, toSomeone((*tenant).crashAll)},
	{2, toSomeone((*tenant).crashAroundDeadNode)},
	{3, toSomeone((*tenant).disruptPod)},
	{4, (*world).breakNode},
	{2, (*world).reboot},
	{4, (*world).drainLeaf},
	{4, (*world).joinLate},
	{2, (*world).breakDevicePlugin},
	{3, (*world).breakStarts},
	{1, toSomeone((*tenant).breakImage)},
	{3, (*world).toggleDemand},
	{5, (*world).mendNode},
	{2, (*world).deleteNode},
	{2, (*world).cordonNode},
	{1, (*world).evictByTaint},
	{2, (*world).proveNodeDead},
	{4, (*world).signalNode},
	{2, toSomeone((*tenant).signalPod)},
	{4, toSomeone((*tenant).degradeLink)},
	{4, toSomeone((*tenant).clearSignals)},

	{4, toSomeone((*tenant).deletePod)},
	{1, toSomeone((*tenant).deleteVolcanoJob)},
	{1, toSomeone((*tenant).toggleSuspend)},
	{2, (*world).acknowledge},
	{2, toSomeone((*tenant).requestRestart)},
	{2, toSomeone((*tenant).changePolicy)},
	{1, toSomeone((*tenant).changeCheckpoint)},
	{3, toSomeone((*tenant).changeReplicas)},
	{3, toSomeone((*tenant).changeSpares)},
	{1, toSomeone((*tenant).toggleDryRun)},
	{20, (*world).grabNode},
	{2, (*world).fillRack},
	{8, (*world).leaveNode},
	{2, (*world).toggleQueue},
}

var allMoves = func() int {
	sum := 0
	for _, m := range moves {
		sum += m.weight
	}
	return sum
}()

// toSomeone lets a move happen to one of the jobs.
func toSomeone(do func(*tenant)) func(*world) {
	return func(w *world) { do(w.someone()) }
}

// move lets one thing happen.
func (w *world) move() {
	at := w.rng.IntN(allMoves)
	for _, m := range moves {
		if at -= m.weight; at < 0 {
			m.do(w)
			return
		}
	}
}
