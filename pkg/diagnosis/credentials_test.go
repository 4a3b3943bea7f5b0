package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestADeniedPullNamesTheSecretsOfThePod(t *testing.T) {
	const image = `image "jupyter:1" of container "notebook" cannot be pulled: the registry denies access`
	pulling := func(text string, secrets ...string) Workload {
		return Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: waiting("ImagePullBackOff", `Back-off pulling image "jupyter:1": ErrImagePull: `+text)}), func(p *corev1.Pod) {
			for _, name := range secrets {
				p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
		}))}
	}
	const expired = `denied: Your authorization token has expired. Reauthenticate and try again.`
	const noAuth = `pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`
	says := func(text string) wantCause {
		return wantCause{reason: "ImagePullBackOff", container: "notebook", sentence: image + text}
	}
	run(t, map[string]diagnoseCase{
		"expired":               {pulling(expired, "ecr"), says(`: Your authorization token has expired. Reauthenticate and try again: renew the credentials in Secret "ecr"`)},
		"expired, of the node":  {pulling(expired), says(`: Your authorization token has expired. Reauthenticate and try again: renew the credentials that the node uses for this registry`)},
		"none for the registry": {pulling(noAuth, "ecr"), says(`, or has no such repository; the node sent no credentials (no basic auth credentials), although the pod names Secret "ecr": check that Secret "ecr" has credentials for "docker.io", and check the image name`)},
		"none":                  {pulling(noAuth), says(`, or has no such repository; the node sent no credentials (no basic auth credentials): check the image name, and that imagePullSecrets names a Secret with credentials for the image`)},
		"not accepted":          {pulling(textDenied, "ecr"), says(`, or has no such repository: check the image name, and that the credentials in Secret "ecr" are valid for "docker.io" and may read the image`)},
	})
}

func TestTheRegistryIsTheHostOfTheImage(t *testing.T) {
	for image, want := range map[string]string{
		"jupyter:1": `"docker.io"`, "x/jupyter": `"docker.io"`, "reg.example/x/jupyter:1": `"reg.example"`, "localhost/x": `"localhost"`, "reg:5000/x": `"reg:5000"`,
	} {
		if got := registryOf(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
