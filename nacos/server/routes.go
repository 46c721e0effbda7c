package server

import (
	"net/http"
	"net/url"
)

// routes returns the HTTP paths of the imitated server.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.addClientPaths(mux)
	mux.HandleFunc("/", func(rw http.ResponseWriter, req *http.Request) {
		(&call{ResponseWriter: rw, req: req}).spring(http.StatusNotFound, "No message available")
	})
	return mux
}

// consoleRoutes returns the paths of the console's own port.
func (s *Server) consoleRoutes() http.Handler {
	return http.NotFoundHandler()
}

// handle adds one path.
func (s *Server) handle(mux *http.ServeMux, pattern string, r route) {
	mux.HandleFunc(pattern, s.handler(func(url.Values) route { return r }))
}

// addClientPaths adds what 1.x clients use; every imitated server has it.
func (s *Server) addClientPaths(mux *http.ServeMux) {
	const configs = "/nacos/v1/cs/configs"
	read := route{op: OpRead, need: needRead, tenant: "tenant", handle: (*Server).v1Get}
	mux.HandleFunc("GET "+configs, s.handler(func(url.Values) route { return read }))
	s.handle(mux, "POST "+configs, route{op: OpPublish, need: needWrite, tenant: "tenant", handle: (*Server).v1Publish})
	s.handle(mux, "DELETE "+configs, route{op: OpRemove, need: needWrite, tenant: "tenant", handle: (*Server).v1Remove})
	s.handle(mux, "POST "+configs+"/listener", route{op: OpListen, need: needRead, tenant: "tenant", handle: (*Server).v1Poll})
}
