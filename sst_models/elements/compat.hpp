// What differs between the versions of SST that are served. HXMESH_SST_MAJOR comes from the build.
#pragma once

#include <sst/core/event.h>
#include <sst/core/interfaces/simpleNetwork.h>

namespace hxmesh::sst {

// 15 has handlers of an older kind under the plain name; 16 has only those that 15 calls Handler2.
#if HXMESH_SST_MAJOR >= 16
template <class Class, auto member, class Data = void> using EventHandler = SST::Event::Handler<Class, member, Data>;
template <class Class, auto member> using NetworkHandler = SST::Interfaces::SimpleNetwork::Handler<Class, member>;
#else
template <class Class, auto member, class Data = void> using EventHandler = SST::Event::Handler2<Class, member, Data>;
template <class Class, auto member> using NetworkHandler = SST::Interfaces::SimpleNetwork::Handler2<Class, member>;
#endif

} // namespace hxmesh::sst
