package server

import (
	"net/http"
	"net/url"
)

// Paths that 3.x names to those who use the ones that it has given up.
const (
	insteadDetail      = "GET ${contextPath:nacos}/v3/console/cs/config"
	insteadSearch      = "GET ${contextPath:nacos}/v3/console/cs/config/list"
	insteadHistory     = "GET ${contextPath:nacos}/v3/console/cs/history/list"
	insteadListeners   = "GET ${contextPath:nacos}/v3/console/cs/config/listener"
	insteadListenedBy  = "GET ${contextPath:nacos}/v3/console/cs/config/listener/ip"
	insteadNamespaces  = "GET ${contextPath:nacos}/v3/console/core/namespace/list"
	insteadState       = "GET ${contextPath:nacos}/v3/console/server/state"
	insteadHealth      = "GET ${contextPath:nacos}/v3/console/health/readiness"
	insteadConnections = "GET ${contextPath:nacos}/v3/admin/core/loader/current"
	insteadConfig      = "${contextPath:nacos}/v3/admin/cs/config"
)

// routes returns the HTTP paths of the imitated server.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", notFound)
	s.addClientPaths(mux)
	s.addLogin(mux, "/nacos/v1/auth/users/login")
	if s.cfg.Behaviour == RNacos {
		s.handle(mux, "GET /nacos/v1/console/namespaces", route{op: OpQuery, handle: (*Server).v1Namespaces})
		s.handle(mux, "GET /nacos/v2/console/namespace/list", route{op: OpQuery, handle: (*Server).v3Namespaces})
		mux.HandleFunc("GET /nacos/v1/cs/configs/listener", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusMethodNotAllowed)
		})
		return mux
	}
	s.addV1Management(mux)
	s.addV2(mux)
	if s.cfg.Behaviour == Nacos3 {
		s.addV3(mux)
	} else {
		s.addV1Console(mux, "/nacos")
	}
	return mux
}

// consoleRoutes returns the paths of the console's own port, which 3.x has.
func (s *Server) consoleRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", notFound)
	read := route{op: OpQuery, need: needRead, tenant: "namespaceId"}
	s.handle(mux, "GET /v3/console/cs/config/listener", read.by(keyed((*Server).v3Key, (*Server).v3ConfigListeners)))
	s.handle(mux, "GET /v3/console/core/namespace/list", route{op: OpQuery, need: needUser, handle: (*Server).v3Namespaces})
	s.handle(mux, "GET /v3/console/server/state", route{op: OpQuery, handle: (*Server).v1State})
	s.handle(mux, "GET /v3/console/health/readiness", route{op: OpQuery, handle: (*Server).v3Health})
	s.addLogin(mux, "/v1/auth/users/login")
	s.addLogin(mux, "/v3/auth/user/login")
	if s.cfg.LegacyAPIs {
		s.addV1Console(mux, "")
	}
	return mux
}

func notFound(rw http.ResponseWriter, req *http.Request) {
	(&call{ResponseWriter: rw, req: req}).spring(http.StatusNotFound, "No message available")
}

// handle adds one path.
func (s *Server) handle(mux *http.ServeMux, pattern string, r route) {
	mux.HandleFunc(pattern, s.handler(func(url.Values) route { return r }))
}

// by completes a route.
func (r route) by(handle func(*Server, *call)) route {
	r.handle = handle
	return r
}

// replacedBy marks a route as given up in 3.x.
func (r route) replacedBy(path string) route {
	r.gone = path
	return r
}

func (s *Server) addLogin(mux *http.ServeMux, path string) {
	s.handle(mux, "POST "+path, route{op: OpLogin, handle: (*Server).login})
}

// addClientPaths adds what 1.x clients use; every imitated server has it.
func (s *Server) addClientPaths(mux *http.ServeMux) {
	const configs = "/nacos/v1/cs/configs"
	read := route{op: OpRead, need: needRead, tenant: "tenant", handle: (*Server).v1Get}
	show := route{op: OpDetail, need: needRead, tenant: "tenant", handle: (*Server).v1Show}.replacedBy(insteadDetail)
	search := route{op: OpSearch, need: needRead, tenant: "tenant", handle: (*Server).v1Search}.replacedBy(insteadSearch)
	mux.HandleFunc("GET "+configs, s.handler(func(params url.Values) route {
		switch {
		case params.Get("show") == "all" && s.cfg.Behaviour != RNacos:
			return show
		case params.Has("search"):
			return search
		default:
			return read
		}
	}))
	s.handle(mux, "POST "+configs, route{op: OpPublish, need: needWrite, tenant: "tenant", handle: (*Server).v1Publish})
	s.handle(mux, "DELETE "+configs, route{op: OpRemove, need: needWrite, tenant: "tenant", handle: (*Server).v1Remove})
	s.handle(mux, "POST "+configs+"/listener", route{op: OpListen, need: needRead, tenant: "tenant", handle: (*Server).v1Poll})
}

// addV1Management adds the old paths of 2.x for people and tools, which 3.x has given up, and its users.
func (s *Server) addV1Management(mux *http.ServeMux) {
	read := route{op: OpQuery, need: needRead, tenant: "tenant"}
	history := route{op: OpHistory, need: needRead, tenant: "tenant"}
	s.handle(mux, "GET /nacos/v1/cs/configs/listener", read.by((*Server).v1Listeners).replacedBy(insteadListeners))
	s.handle(mux, "GET /nacos/v1/cs/listener", route{op: OpQuery, need: needAdmin, handle: (*Server).v1ListenedBy}.replacedBy(insteadListenedBy))
	s.handle(mux, "GET /nacos/v1/cs/history", history.by((*Server).v1History).replacedBy(insteadHistory))
	s.handle(mux, "GET /nacos/v1/cs/history/previous", history.by((*Server).v1Previous).replacedBy(insteadHistory))

	s.handle(mux, "POST /nacos/v1/auth/users/admin", route{op: OpLogin, handle: (*Server).firstAdmin})
	s.handle(mux, "POST /nacos/v1/auth/users", route{op: OpLogin, need: needAdmin, handle: (*Server).addUser})
	s.handle(mux, "POST /nacos/v1/auth/roles", route{op: OpLogin, need: needAdmin, handle: (*Server).addRole})
	s.handle(mux, "POST /nacos/v1/auth/permissions", route{op: OpLogin, need: needAdmin, handle: (*Server).addPermission})
}

// addV1Console adds the console paths of 2.x below a prefix.
func (s *Server) addV1Console(mux *http.ServeMux, prefix string) {
	s.handle(mux, "GET "+prefix+"/v1/console/namespaces", route{op: OpQuery, handle: (*Server).v1Namespaces})
	s.handle(mux, "POST "+prefix+"/v1/console/namespaces", route{op: OpQuery, need: needAdmin, handle: (*Server).v1AddNamespace})
	s.handle(mux, "GET "+prefix+"/v1/console/server/state", route{op: OpQuery, handle: (*Server).v1State})
	s.handle(mux, "GET "+prefix+"/v1/console/health/liveness", route{op: OpQuery, handle: (*Server).v1Health})
	s.handle(mux, "GET "+prefix+"/v1/console/health/readiness", route{op: OpQuery, handle: (*Server).v1Health})
}

// addV2 adds the paths of v2.
func (s *Server) addV2(mux *http.ServeMux) {
	const configs = "/nacos/v2/cs/config"
	as := func(op Op, n need, handle func(*Server, *call, key)) route {
		return route{op: op, need: n, tenant: "namespaceId", handle: keyed((*Server).v2Key, handle)}
	}
	s.handle(mux, "GET "+configs, as(OpRead, needRead, (*Server).v2Get).replacedBy("GET "+insteadConfig))
	s.handle(mux, "POST "+configs, as(OpPublish, needWrite, (*Server).publishInEnvelope).replacedBy("POST "+insteadConfig))
	s.handle(mux, "DELETE "+configs, as(OpRemove, needWrite, (*Server).removeInEnvelope).replacedBy("DELETE "+insteadConfig))
	s.handle(mux, "GET /nacos/v2/cs/history/list", as(OpHistory, needRead, (*Server).v2History).replacedBy(insteadHistory))
	s.handle(mux, "GET /nacos/v2/core/loader/current",
		route{op: OpQuery, need: needAdmin, handle: (*Server).v1Connections}.replacedBy(insteadConnections))
}

// addV3 adds the paths of 3.x, and the answers to those that it has given up.
func (s *Server) addV3(mux *http.ServeMux) {
	const admin = "/nacos/v3/admin"
	as := func(op Op, n need, handle func(*Server, *call)) route {
		return route{op: op, need: n, tenant: "namespaceId", handle: handle}
	}
	for pattern, r := range map[string]route{
		"GET /nacos/v3/client/cs/config": as(OpRead, needRead, keyed((*Server).v3Key, (*Server).v3ClientGet)),

		"GET " + admin + "/cs/config":           as(OpDetail, needRead, keyed((*Server).v3Key, (*Server).v3Show)),
		"POST " + admin + "/cs/config":          as(OpPublish, needWrite, keyed((*Server).v3Key, (*Server).publishInEnvelope)),
		"DELETE " + admin + "/cs/config":        as(OpRemove, needWrite, keyed((*Server).v3Key, (*Server).removeInEnvelope)),
		"GET " + admin + "/cs/config/list":      as(OpSearch, needRead, (*Server).v3List),
		"GET " + admin + "/cs/config/listener":  as(OpQuery, needAdmin, keyed((*Server).v3Key, (*Server).v3ConfigListeners)),
		"GET " + admin + "/cs/listener":         as(OpQuery, needAdmin, (*Server).v3ListenedBy),
		"GET " + admin + "/cs/history/list":     as(OpHistory, needRead, keyed((*Server).v3Key, (*Server).v3History)),
		"GET " + admin + "/cs/history":          as(OpHistory, needRead, (*Server).v3Version),
		"GET " + admin + "/cs/history/previous": as(OpHistory, needRead, (*Server).v3Previous),

		"GET " + admin + "/core/namespace/list":  as(OpQuery, needAdmin, (*Server).v3Namespaces),
		"POST " + admin + "/core/namespace":      as(OpQuery, needAdmin, (*Server).v3AddNamespace),
		"GET " + admin + "/core/loader/current":  as(OpQuery, needAdmin, (*Server).v3Connections),
		"GET " + admin + "/core/state":           as(OpQuery, needNothing, (*Server).v3State),
		"GET " + admin + "/core/state/liveness":  as(OpQuery, needNothing, (*Server).v3Health),
		"GET " + admin + "/core/state/readiness": as(OpQuery, needNothing, (*Server).v3Health),

		"POST /nacos/v3/auth/user/login": as(OpLogin, needNothing, (*Server).login),
		"POST /nacos/v3/auth/user/admin": as(OpLogin, needNothing, (*Server).firstAdmin),
		"POST /nacos/v3/auth/user":       as(OpLogin, needAdmin, (*Server).addUser),
		"POST /nacos/v3/auth/role":       as(OpLogin, needAdmin, (*Server).addRole),
		"POST /nacos/v3/auth/permission": as(OpLogin, needAdmin, (*Server).addPermission),
	} {
		s.handle(mux, pattern, r)
	}
	if s.cfg.LegacyAPIs { // they moved to the console's port
		return
	}
	for path, instead := range map[string]string{"namespaces": insteadNamespaces, "server/state": insteadState,
		"health/liveness": insteadHealth, "health/readiness": insteadHealth} {
		s.handle(mux, "GET /nacos/v1/console/"+path, route{op: OpQuery, handle: (*Server).v1State}.replacedBy(instead))
	}
}
