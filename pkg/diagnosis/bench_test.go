package diagnosis

import "testing"

func BenchmarkDiagnose(b *testing.B) {
	for name, w := range map[string]Workload{
		"OutOfMemory": {Pods: pods(newPod(status(crashLooping(ended("OOMKilled", 137, 60), 3))))},
		"Everything":  everything(),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Diagnose(w)
			}
		})
	}
}
