package healthcheck

import "context"

// URI returns what a pod is asked for by a path.
func URI(path string) (string, error) {
	req, err := podRequest(context.Background(), "192.0.2.7:8080", &HTTP{Path: path})
	if err != nil {
		return "", err
	}
	return req.URL.RequestURI(), nil
}

// Proxied says whether the API server is asked for a path.
func Proxied(path string) bool { return checkProxied(&HTTP{Path: path}) == nil }
