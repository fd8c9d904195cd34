/* The declarations that every P4-16 program may use (P4-16 specification, core library). */
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserTimeout,
    ParserInvalidArgument
}

match_kind { exact, ternary, lpm }

extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
